"""Role-wise GRPO advantages: A = S − μ over the group's trajectories of one role.

The group of a row is (task, role), so the two roles never share a baseline. The paper
(arXiv 2608.06197) subtracts the mean only; `std` divides by the spread as well.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal, TypeVar

Baseline = Literal["trajectory", "row"]
Group = TypeVar("Group", bound=Hashable)


def advantages(
    scores: Sequence[float],
    groups: Sequence[Hashable],
    trajectories: Sequence[Hashable],
    baseline: Baseline = "trajectory",
    std: bool = False,
    std_floor: float = 0.2,
) -> list[float]:
    """Advantage of each row.

    Args:
        scores: Reward S of the row's trajectory.
        groups: Group key of the row: task and role.
        trajectories: Trajectory of the row; several rows may belong to one.
        baseline: `trajectory` counts every trajectory once in μ; `row` counts every row,
            as the reference implementation does, so long trajectories weigh more.
        std: Divide by the group's standard deviation plus `std_floor`.
        std_floor: Keeps nearly unanimous groups from exploding.

    Returns:
        One advantage a row. Groups without spread, singletons included, give exactly 0.
    """
    members: dict[Hashable, dict[Hashable, float]] = defaultdict(dict)
    for index, (score, group, trajectory) in enumerate(zip(scores, groups, trajectories, strict=True)):
        key = trajectory if baseline == "trajectory" else index
        members[group][key] = score
    # A constant group must give exactly 0, whatever rounding would do to its mean.
    flat = unanimous(scores, groups)
    means: dict[Hashable, float] = {}
    scales: dict[Hashable, float] = {}
    for group, by_key in members.items():
        values = list(by_key.values())
        means[group] = mean = sum(values) / len(values)
        spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
        scales[group] = spread + std_floor if std else 1.0
    return [
        0.0 if group in flat else (score - means[group]) / scales[group]
        for score, group in zip(scores, groups, strict=True)
    ]


def unanimous(scores: Sequence[float], groups: Sequence[Group]) -> dict[Group, float]:
    """Groups without spread, singletons included, with the score that all their rows share.

    Such a group teaches nothing: the task is too easy or too hard for the policy.

    Args:
        scores: Reward of the row's trajectory.
        groups: Group key of the row.
    """
    members: dict[Group, list[float]] = defaultdict(list)
    for score, group in zip(scores, groups, strict=True):
        members[group].append(score)
    return {group: values[0] for group, values in members.items() if min(values) == max(values)}
