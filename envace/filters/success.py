"""A rule on the outcome: the trajectory was rewarded, or made the calls of a reference solution."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from envace.errors import EnvaceError
from envace.filters.funnel import Rule
from envace.leakage.calls import canonical_calls, reference_calls
from envace.leakage.records import EvalItem
from envace.trajectory import ToolCall, Trajectory, iter_records


def agreement(made: Sequence[ToolCall], reference: Sequence[ToolCall]) -> float:
    """Calls in both, over the calls of the longer side, in [0, 1]; the order does not count."""
    ours, theirs = (Counter(canonical_calls([call]) for call in calls) for calls in (made, reference))
    longer = max(ours.total(), theirs.total())
    return (ours & theirs).total() / longer if longer else 1.0


def success(part: str = "success", at_least: float = 1.0, reference: str = "", agree: float = 1.0) -> Rule:
    """A rule that refuses a trajectory that failed, or of which nobody knows whether it did.

    Args:
        part: The reward part that says so.
        at_least: Least reward, in [0, 1].
        reference: A file of items (`leakage.EvalItem`) whose `id` is the trajectory's task, or its own
            id, and whose `gold_calls` solve it; asked where a trajectory has no such reward.
        agree: Least agreement with those calls, in [0, 1].

    Raises:
        EnvaceError: The reference file is absent or has a bad line.
    """
    solutions: dict[str, list[ToolCall]] = {}
    for item in iter_records(Path(reference), EvalItem) if reference else ():
        calls = reference_calls(item.gold_calls)
        if calls is None:
            raise EnvaceError(
                f"{reference}: gold_calls of {item.id} are no JSON list of calls", "mend or leave out"
            )
        solutions[item.id] = calls

    def rule(trajectory: Trajectory) -> str | None:
        if part in trajectory.reward:
            reward = trajectory.reward[part]
            return None if reward >= at_least else f"{part} {reward:g}, least {at_least:g}"
        task = trajectory.lineage.task_id or trajectory.id
        if task not in solutions:
            return f"no reward {part}" + (f", and no reference for {task}" if reference else "")
        share = agreement(trajectory.calls(), solutions[task])
        return (
            None
            if share >= agree
            else f"{share:.0%} of the calls agree with the reference, least {agree:.0%}"
        )

    return rule
