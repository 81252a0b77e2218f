"""Run the quality suite over rehearsed outputs; measure in `check`, refuse in `gate`.

The result counts evaluated expectations beside the built ones, because an expectation that
is dropped or raises inside the engine must not read as passed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import Field

from envace.errors import EnvaceError
from envace.quality.drift import drifts
from envace.quality.first_calls import FirstCall
from envace.quality.measures import MEASURES
from envace.quality.records import RehearsedOutput
from envace.quality.suite import DRIFT, Thresholds, requirements
from envace.quality.validation import judged, validate
from envace.trajectory.records import Record

if TYPE_CHECKING:
    import pandas as pd


class Share(Record):
    """A share of rows."""

    share: float | None
    """In [0, 1]; None without rows."""
    n: int
    """Rows it is taken over."""


class Agreement(Record):
    """How often predictions equal the world's response; core (non-error) responses if not said otherwise."""

    overall: Share
    """Gated worlds together."""
    errors: Share
    """Error responses of gated worlds."""
    worlds: dict[str, Share]
    """Every world by name, gated or not."""
    tools: dict[str, Share]
    """Every tool as `world.tool`."""


class QualityResult(Record):
    """Outcome of one check, as the report and the gate read it."""

    policy: str
    """Checkpoint that rehearsed: `warmup` or `trained`."""
    rows: int
    """Rehearsed outputs checked."""
    passed: bool
    """Every built expectation was evaluated and met."""
    evaluated: int
    """Expectations that gave a verdict."""
    expected: int
    """Expectations built."""
    failures: tuple[str, ...]
    """One line a failure; the worst tool first, then the wider groups."""
    warnings: tuple[str, ...] = ()
    """The same for what is only reported, and what was not checked."""
    measures: dict[str, dict[str, Share]] = Field(default_factory=dict)
    """Share of responses that keep each measure, by measure and `world.tool`."""
    first_calls: dict[str, Share] = Field(default_factory=dict)
    """Share of first calls that the world carries out, by commit-once world."""
    drift: dict[str, float] = Field(default_factory=dict)
    """Population stability index of each distribution against the accepted run; empty without one."""
    agreement: Agreement
    """Agreement with the world."""
    docs: str
    """Index page of the Data Docs."""


def check(
    rows: Sequence[RehearsedOutput],
    thresholds: Thresholds,
    docs_dir: Path | str,
    accepted: Sequence[RehearsedOutput] = (),
    first_calls: Sequence[FirstCall] = (),
) -> QualityResult:
    """Validate rehearsed outputs and build their Data Docs; a low quality does not raise.

    Args:
        rows: Outputs of one policy on held-out calls.
        thresholds: What passes.
        docs_dir: Folder of the Data Docs; replaced whole, so old validations never pile up.
        accepted: Outputs of the last accepted run, to measure drift against.
        first_calls: What the same policy calls first where one call decides.

    Raises:
        EnvaceError: There are no rows, two policies are mixed, or a gated world lists no tools.
    """
    policies = sorted({row.policy for row in rows} | {call.policy for call in first_calls})
    if len(policies) != 1:
        found = " and ".join(policies) if policies else "no rehearsed outputs"
        raise EnvaceError(f"quality check: {found}, where one policy's rows are due", "check one policy")
    for world in thresholds.worlds:
        if not thresholds.tools.get(world):
            raise EnvaceError(f"quality check: gated world {world} lists no tools", "mend gate.worlds")
    drift = drifts(accepted, rows) if accepted else {}
    built = requirements(rows, thresholds, drift, first_calls)
    verdicts = validate(table(rows, thresholds, drift, first_calls), built, Path(docs_dir), policies[0])
    failures, warnings = judged(verdicts)
    return QualityResult(
        policy=policies[0],
        rows=len(rows),
        passed=not failures,
        evaluated=sum(not verdict.error for verdict in verdicts),
        expected=len(built),
        failures=tuple(failures),
        warnings=tuple(warnings),
        measures=measures(rows),
        first_calls=_by_world(first_calls),
        drift=drift,
        agreement=agreement(rows, thresholds),
        docs=(Path(docs_dir) / "index.html").as_posix(),
    )


def gate(result: QualityResult) -> None:
    """Refuse to go on from a failed check, in one line that names the worst tool first."""
    if result.passed:
        return
    rest = len(result.failures) - 1
    more = f", and {rest} more" if rest else ""
    raise EnvaceError(
        f"quality gate: the {result.policy} policy fails: {result.failures[0]}{more}",
        f"warm up for longer or lower `gate`; all failures: {result.docs}",
    )


def agreement(rows: Sequence[RehearsedOutput], thresholds: Thresholds) -> Agreement:
    """Agreement overall, by world and by tool."""
    core = [row for row in rows if not row.is_error]
    errors = [row for row in rows if row.is_error and row.world in thresholds.worlds]
    worlds: dict[str, list[bool]] = {}
    tools: dict[str, list[bool]] = {}
    for row in core:
        worlds.setdefault(row.world, []).append(row.agrees)
        tools.setdefault(f"{row.world}.{row.tool}", []).append(row.agrees)
    return Agreement(
        overall=_share([row.agrees for row in core if row.world in thresholds.worlds]),
        errors=_share([row.agrees for row in errors]),
        worlds={name: _share(worlds[name]) for name in sorted(worlds)},
        tools={name: _share(tools[name]) for name in sorted(tools)},
    )


def measures(rows: Sequence[RehearsedOutput]) -> dict[str, dict[str, Share]]:
    """Share of responses that keep each measure, by measure and tool."""
    flags: dict[str, dict[str, list[bool]]] = {name: {} for name in MEASURES}
    for row in rows:
        for name, kept in row.checks.items():
            flags[name].setdefault(f"{row.world}.{row.tool}", []).append(kept)
    return {
        name: {tool: _share(tools[tool]) for tool in sorted(tools)} for name, tools in flags.items() if tools
    }


def _by_world(first_calls: Sequence[FirstCall]) -> dict[str, Share]:
    """Share of accepted calls."""
    flags: dict[str, list[bool]] = {}
    for item in first_calls:
        flags.setdefault(item.world, []).append(item.accepted)
    return {world: _share(flags[world]) for world in sorted(flags)}


def table(
    rows: Sequence[RehearsedOutput],
    thresholds: Thresholds,
    drift: Mapping[str, float] = MappingProxyType({}),
    first_calls: Sequence[FirstCall] = (),
) -> "pd.DataFrame":
    """The rows as a table, with a column for every measure and drift, and one more: is the tool known?
    First calls are rows of their own, whose other columns are empty."""
    import pandas as pd

    known = {(world, tool) for world, tools in thresholds.tools.items() for tool in tools}
    more = {f"{DRIFT} {name}": index for name, index in drift.items()}
    blank = dict.fromkeys(MEASURES)
    return pd.DataFrame(
        [
            blank
            | row.model_dump(exclude={"checks"})
            | row.checks
            | more
            | {"known": (row.world, row.tool) in known}
            for row in rows
        ]
        + [{"world": item.world, "task_id": item.task_id, "accepted": item.accepted} for item in first_calls]
    )


def _share(flags: Sequence[bool]) -> Share:
    """Mean of flags with its count."""
    return Share(share=sum(flags) / len(flags) if flags else None, n=len(flags))
