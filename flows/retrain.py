"""`python -m flows.retrain`: train a candidate on what came in, and promote it only if it is better.

Works in a worktree of its own (`flows.worktree`); a candidate is a commit there, registered as a
version whether it wins or not (`flows.registry`). Files stay in the inbox until the decision, so a
run that was killed is simply run again.
"""

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import yaml
from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from envace.errors import EnvaceError
from envace.files import atomic_text, read_json
from envace.leakage.sources import read_items
from envace.params import FilterParams
from flows import registry
from flows.artifacts import publish_project, publish_table
from flows.champion import CORPUS, in_place, keep, restore_corpus, successes
from flows.commands import dvc
from flows.decision import Decision, Rules, decide
from flows.inbox import Received, put_away, receive, refuse, waiting
from flows.reproduce import dvc_repro, run_stages
from flows.terminal import run
from flows.worktree import alone, prepared

BENCHMARKS = {
    "evaluate_worlds@trained-none": "evaluation/worlds/trained_none.json",
    "evaluate@bfcl_v4-none": "evaluation/bfcl_v4/none/result.json",
    "evaluate@tau2-none": "evaluation/tau2/none/result.json",
}
"""Stages that measure the policy, and the result each writes."""
QUALITY = Path("quality/trained.json")
"""Result of the quality gate after training."""
SIFTING = ("filter", "leakage")
"""Stages whose own refusal is the fault of the data, not of the machine."""


@flow(name="retrain")
def retrain(
    inbox: str = "inbox",
    rules: Rules | None = None,
    benchmarks: dict[str, str] | None = None,
    start: Literal["base", "champion"] = "base",
) -> State:
    """Train and judge a candidate if the inbox holds anything usable.

    Args:
        inbox: Folder of new files, relative to the checkout.
        rules: When a candidate is better.
        benchmarks: Stages that measure the policy, with the file each writes; `BENCHMARKS` when None.
        start: What the graph begins with: the base policy of the parameters, or the champion if there is one.

    Returns:
        Completed as `Promoted`, `Archived`, `Refused` (the data) or `NothingNew`; or Failed.
    """
    checkout = Path.cwd()
    try:
        with alone(checkout) as home, contextlib.chdir(prepared(checkout, home)):
            return _retrain(checkout, checkout / inbox, rules or Rules(), benchmarks or BENCHMARKS, start)
    except EnvaceError as error:
        return Failed(message=str(error))


def _retrain(checkout: Path, inbox: Path, rules: Rules, benchmarks: Mapping[str, str], start: str) -> State:
    tree, champion = Path.cwd(), registry.champion(checkout)
    fresh = _taken(inbox, restore_corpus(tree, champion))
    if not fresh:
        return Completed(name="NothingNew", message="nothing new and usable in the inbox")
    _feed(tree, champion if start == "champion" else None)
    with dvc_repro() as work:
        rows, failed = run_stages(work)
    publish_table("stages", rows, "Stages of this run")
    if failed:
        reason = str(failed.message)
        if rows[-1]["stage"] not in SIFTING or ": error: " not in reason:
            return Failed(message=reason)
        for received in fresh:
            refuse(received, inbox, reason)
        return Completed(name="Refused", message=f"{len(fresh)} files refused: {reason}")
    publish_project()
    candidate = keep(tree, f"Candidate trained with {', '.join(received.name for received in fresh)}")
    decision = _judged(tree, champion, candidate, benchmarks, rules)
    version = registry.register(checkout, candidate, decision.reason)
    if decision.promote:
        registry.promote(checkout, version.version, decision.reason)
    for received in fresh:
        put_away(received, inbox)
    _publish(decision, version, champion, rules)
    name = "Promoted" if decision.promote else "Archived"
    return Completed(name=name, message=f"{version.version}: {decision.reason}")


def _taken(inbox: Path, known: set[str]) -> list[Received]:
    """Files of the inbox with usable rows that no champion was trained on; the others are moved away."""
    logger, settings = get_run_logger(), yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))
    files = waiting(inbox)
    # Held-out tasks of the worlds are made by the graph, whose own leakage stage compares with them.
    against = [entry for entry in settings["leakage"]["against"] if entry != "worlds"] if files else []
    items = [item for entry in against for item in read_items(entry)]
    filtering = FilterParams.model_validate(settings["filter"])
    fresh, rows = [], []
    for path in files:
        received = receive(path, inbox, Path(CORPUS), filtering, items)
        rows.append(received.row())
        logger.info(
            "%s: %d rows, %d leaked, %d dropped %s",
            received.name, received.rows, received.leaked, received.dropped, received.reason,
        )  # fmt: skip
        if received.accepted is None:
            refuse(received, inbox, received.reason)
        elif received.accepted.name in known:
            put_away(received, inbox)
        else:
            fresh.append(received)
    publish_table("inbox", rows, "Files of the inbox")
    return fresh


def _feed(tree: Path, base: registry.Version | None) -> None:
    """Name the corpus in the parameters, all of it, and let DVC keep it; and the version to begin with."""
    file, paths = tree / "params.yaml", sorted((tree / CORPUS).glob("*.jsonl"))
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    count = sum(path.read_bytes().count(b"\n") for path in paths)
    settings["synthesize"]["sources"]["files"] = {
        "paths": [path.relative_to(tree).as_posix() for path in paths],
        "count": count,
    }
    if base:
        settings["model"] = {"source": "revision", "revision": base.tag}
    with atomic_text(file) as handle:
        yaml.safe_dump(settings, handle, sort_keys=False)
    dvc("add", CORPUS, cwd=tree)


def _judged(
    tree: Path,
    champion: registry.Version | None,
    candidate: str,
    benchmarks: Mapping[str, str],
    rules: Rules,
) -> Decision:
    """Decide over the candidate that the tree holds."""
    after = successes(tree, benchmarks)
    if reason := _unfit(tree):
        return Decision(promote=False, reason=reason)
    if champion is None:
        return Decision(promote=True, reason="the first champion")
    with in_place(tree, champion, candidate):
        with dvc_repro(list(benchmarks)) as work:
            _, failed = run_stages(work, prefix=f"{champion.version}: ")
        if failed:
            raise EnvaceError(f"{champion.version} could not be measured: {failed.message}")
        before = successes(tree, benchmarks)
    return decide(before, after, rules)


def _unfit(tree: Path) -> str:
    """Why the quality gate refuses the candidate; empty when it does not, or is not enforced."""
    settings = yaml.safe_load((tree / "params.yaml").read_text(encoding="utf-8"))
    if not settings["gate"]["enforced"]:
        return ""
    found = read_json(tree / QUALITY)
    return "" if found["passed"] else f"quality gate: {found['failures'][0]}"


def _publish(
    decision: Decision, version: registry.Version, champion: registry.Version | None, rules: Rules
) -> None:
    """The decision as a table."""
    row = {
        "candidate": version.version,
        "champion": champion.version if champion else "none",
        **decision.model_dump(exclude={"changes"}),
        **{f"change of {name}": change for name, change in decision.changes.items()},
    }
    publish_table("decision", [row], f"By {rules.model_dump_json()}")


if __name__ == "__main__":
    sys.exit(run(retrain))
