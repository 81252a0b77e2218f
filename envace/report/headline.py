"""The finding in four sentences, by rules on the numbers, in either direction."""

from collections.abc import Iterator, Mapping
from typing import Any

from envace.report.compare import direction
from envace.report.words import gain, names, number, percent

MOVES = {1: "rose", -1: "fell"}
VERBS = {1: "raised", -1: "lowered"}
POLICIES = {"warmup": "the warmed-up policy", "trained": "the trained policy"}


def headline(summary: Mapping[str, Any]) -> list[str]:
    """The sentences; each says "no significant change" where its interval spans 0."""
    return [
        _success(summary["worlds"]),
        _environment(summary["worlds"], summary["collusion"]["alarms"], summary["gate"]),
        *_rehearsal(summary["rehearsal"]),
        _benchmarks(summary["benchmarks"]),
    ]


def _success(worlds: Mapping[str, Any]) -> str:
    before, after = worlds["warmup"], worlds["trained"]
    moved = _moved(before["success"], after["success"], worlds["change"])
    return f"After training, success on {after['n']} held-out tasks of the chained worlds {moved}."


def _environment(worlds: Mapping[str, Any], alarms: Mapping[str, str], gate: Mapping[str, Any]) -> str:
    before, after = (worlds[policy]["environment_accuracy"] for policy in POLICIES)
    moved = _moved(before, after, worlds["environment_change"])
    failed = [policy for policy in POLICIES if not gate[policy]["passed"]]
    verdict = "both policies pass the quality gate"
    if failed:
        verdict = f"the quality gate refuses {names(POLICIES[policy] for policy in failed)}"
    alarm = (
        f"the collusion alarm was raised in {names(alarms)}" if alarms else "no collusion alarm was raised"
    )
    return f"Agreement of rehearsed responses with the gated worlds {moved}; {verdict}, and {alarm}."


def _moved(before: float | None, after: float | None, change: Mapping[str, Any] | None) -> str:
    """What a share did, with both values and the interval of the change."""
    if change is None:
        return "was not measured for both policies"
    values = f"from {percent(before)} to {percent(after)}, by {gain(change)}"
    if direction(change) == 0:
        return f"shows no significant change: {values}"
    return f"{MOVES[direction(change)]} {values}"


def _rehearsal(rehearsal: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each commit-once world."""
    for name, trained in rehearsal["trained"].items():
        change, before = trained["gain"], rehearsal["warmup"][name]["gain"]
        if change is None:
            yield f"Private rehearsal in {name} was not measured."
            continue
        none, parallel = trained["rows"]["none"], trained["rows"]["parallel"]
        values = f"from {percent(none['success'])} to {percent(parallel['success'])}, by {gain(change)},"
        did = "made no significant change to the trained policy's success:"
        if direction(change):
            did = f"{VERBS[direction(change)]} the trained policy's success"
        yield (
            f"Private rehearsal before the one irreversible call of {name} {did} {values} with "
            f"{number(parallel['real_calls'], 2)} real calls and {number(parallel['rehearsal_tokens'], 0)} "
            f"rehearsed tokens an episode; before training it brought {gain(before)}."
        )


def _benchmarks(benchmarks: Mapping[str, Any]) -> str:
    """Every benchmark beside what doing nothing scores."""
    parts = []
    for name, results in benchmarks.items():
        group = results["none"]["groups"]["all"]
        side = "indistinguishable from"
        if group["ci_low"] > group["floor"]:
            side = "above"
        elif group["ci_high"] < group["floor"]:
            side = "below"
        score = f"{percent(group['mean'])} on {name} ({group['n']} tasks)"
        parts.append(f"{score}, {side} the {percent(group['floor'])} of doing nothing")
    return f"Without rehearsal the trained policy scores {'; '.join(parts)}."
