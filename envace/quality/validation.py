"""The one place that runs Great Expectations: requirements and a table in, verdicts and Data Docs out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.files import atomic_folder
from envace.quality.offline import NO_TIME, settle
from envace.quality.suite import Requirement

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Verdict:
    """What Great Expectations said about one requirement."""

    requirement: Requirement
    """The requirement judged."""
    met: bool
    """Whether it holds."""
    observed: float
    """Share, row count or index; 0 for a share over no rows."""
    n: int
    """Rows of the group."""
    error: str
    """Why there is no verdict; empty when there is one."""

    @property
    def line(self) -> str:
        """The failure in one line."""
        r = self.requirement
        if self.error:
            return f"{r.group}: {r.measure} could not be evaluated: {self.error}"
        return r.line(self.observed, self.n)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sorts failures: tools before wider groups, then by how much is missing."""
        ratio = self.observed / self.requirement.required
        return (not self.requirement.per_tool, -ratio if self.requirement.drifts else ratio)


def validate(frame: "pd.DataFrame", built: Sequence[Requirement], docs_dir: Path, name: str) -> list[Verdict]:
    """One verdict a requirement from Great Expectations, in memory; writes only the Data Docs."""
    import great_expectations as gx
    from great_expectations.checkpoint.actions import UpdateDataDocsAction
    from great_expectations.core.run_identifier import RunIdentifier

    with atomic_folder(docs_dir) as folder:
        context = gx.get_context(mode="ephemeral", project_config=_config(folder.resolve()))
        suite = gx.ExpectationSuite(name="rehearsed_outputs")
        for number, requirement in enumerate(built):
            suite.add_expectation(requirement.expectation(number))
        batch = (
            context.data_sources.add_pandas("rehearsal")
            .add_dataframe_asset("outputs")
            .add_batch_definition_whole_dataframe("all")
        )
        definition = gx.ValidationDefinition(name=name, data=batch, suite=context.suites.add(suite))
        checkpoint = gx.Checkpoint(
            name=name,
            validation_definitions=[context.validation_definitions.add(definition)],
            actions=[UpdateDataDocsAction(name="data_docs")],
        )
        outcome = context.checkpoints.add(checkpoint).run(
            batch_parameters={"dataframe": frame}, run_id=RunIdentifier(run_name=name, run_time=NO_TIME)
        )
        (validation,) = outcome.run_results.values()
        configs = [(result.expectation_config, result) for result in validation.results]
        results = {config.meta["number"]: result for config, result in configs if config}
        verdicts = [
            _verdict(requirement, results.get(number), len(frame)) for number, requirement in enumerate(built)
        ]
        failures, warnings = judged(verdicts)
        settle(
            folder,
            f"Quality gate: {'failed' if failures else 'passed'}",
            [*failures, *(f"{line}, reported only" for line in warnings)],
        )
    return verdicts


def judged(verdicts: Sequence[Verdict]) -> tuple[list[str], list[str]]:
    """What fails, and what is only reported: a line each, the worst tool first, then the wider groups."""
    unmet = sorted((verdict for verdict in verdicts if not verdict.met), key=lambda verdict: verdict.rank)
    failures = [v.line for v in unmet if v.requirement.gates or v.error]
    warnings = [v.line for v in unmet if not v.requirement.gates and not v.error]
    evaluated = sum(not verdict.error for verdict in verdicts)
    if evaluated != len(verdicts):
        failures.insert(0, f"only {evaluated} of {len(verdicts)} expectations were evaluated")
    return failures, warnings


def _config(docs_dir: Path) -> Any:
    """An in-memory project that sends nothing and keeps nothing but one Data Docs site."""
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs_dir)},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
    return DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        data_docs_sites={"quality": site},
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


def _verdict(requirement: Requirement, result: Any, rows: int) -> Verdict:
    """Read one result; None or an exception inside it is no verdict."""
    if result is None:
        return Verdict(requirement, False, 0.0, 0, "dropped from the suite")
    error = _exception(result.exception_info)
    if error:
        return Verdict(requirement, False, 0.0, 0, error)
    values = result.result
    if requirement.drifts:
        return Verdict(requirement, bool(result.success), float(values["observed_value"]), rows, "")
    if not requirement.column:
        count = int(values["observed_value"])
        return Verdict(requirement, bool(result.success), count, count, "")
    n = values["element_count"] - values["missing_count"]
    share = (n - values["unexpected_count"]) / n if n else 0.0
    return Verdict(requirement, bool(result.success) and n > 0, share, n, "")


def _exception(info: dict[str, Any]) -> str:
    """First exception of a result as one line; they come flat or keyed by metric."""
    for entry in [info, *info.values()]:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            return (str(entry["exception_message"]).splitlines() or ["no message"])[0]
    return ""
