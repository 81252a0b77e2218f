"""Role-wise GRPO advantages against a recomputation that can be read at a glance."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.rl.advantage import advantages, unanimous

ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["act", "env"]), st.integers(0, 3)), min_size=1, max_size=24
)
"""(task, role, trajectory within the task); a trajectory's score is drawn apart."""


@given(
    rows=ROWS,
    scores=st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]), min_size=12, max_size=12),
    baseline=st.sampled_from(["trajectory", "row"]),
    std=st.booleans(),
)
def test_advantages_equal_the_obvious_recomputation(
    rows: list[tuple[int, str, int]], scores: list[float], baseline: str, std: bool
) -> None:
    of = [scores[task * 4 + trajectory] for task, _, trajectory in rows]
    groups = [(task, role) for task, role, _ in rows]
    trajectories = [(task, trajectory) for task, _, trajectory in rows]
    got = advantages(of, groups, trajectories, baseline, std)  # type: ignore[arg-type]
    for index, group in enumerate(groups):
        mates = [i for i, other in enumerate(groups) if other == group]
        if baseline == "trajectory":
            mates = list({trajectories[i]: i for i in mates}.values())
        values = [of[i] for i in mates]
        if len(set(values)) == 1:
            assert got[index] == 0.0
            continue
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / len(values)
        scale = variance**0.5 + 0.2 if std else 1.0
        assert got[index] == pytest.approx((of[index] - mean) / scale)


def test_trajectory_and_row_baselines_by_hand() -> None:
    # Trajectory a has three rows and scores 1, trajectory b has one row and scores 0.
    scores, groups, trajectories = [1, 1, 1, 0], ["g"] * 4, ["a", "a", "a", "b"]
    assert advantages(scores, groups, trajectories, "trajectory") == [0.5, 0.5, 0.5, -0.5]
    assert advantages(scores, groups, trajectories, "row") == [0.25, 0.25, 0.25, -0.75]
    # Spread of (1, 0) is 0.5; of (1, 1, 1, 0) it is sqrt(3)/4.
    with_std = advantages(scores, groups, trajectories, "trajectory", std=True)
    assert with_std == pytest.approx([0.5 / 0.7] * 3 + [-0.5 / 0.7])


def test_constant_and_single_groups_give_exactly_zero() -> None:
    # The mean of three 0.1 is not 0.1 in floating point: a naive difference would leave noise.
    assert sum([0.1] * 3) / 3 != 0.1
    for std in (False, True):
        assert advantages([0.1] * 3, ["g"] * 3, [0, 1, 2], std=std) == [0.0] * 3
        assert advantages([0.7], ["g"], [0], std=std) == [0.0]
        assert advantages([0.7, 0.7], ["g", "g"], [0, 0], std=std) == [0.0, 0.0]


def test_roles_never_share_a_baseline() -> None:
    # The same two trajectories; the environment role has rows of the good one only.
    got = advantages([1, 0, 1], [("t", "act"), ("t", "act"), ("t", "env")], [0, 1, 0])
    assert got == [0.5, -0.5, 0.0]


@given(scores=st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_a_group_sums_to_zero_and_keeps_the_order(scores: list[float]) -> None:
    got = advantages(scores, ["g"] * len(scores), list(range(len(scores))), std=True)
    assert sum(got) == pytest.approx(0, abs=1e-9)
    ranked = [advantage for _, advantage in sorted(zip(scores, got, strict=True))]
    assert all(low <= high + 1e-12 for low, high in pairwise(ranked))


@given(rows=ROWS, scores=st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=12, max_size=12))
def test_unanimous_groups_are_those_whose_advantages_all_vanish(
    rows: list[tuple[int, str, int]], scores: list[float]
) -> None:
    of = [scores[task * 4 + trajectory] for task, _, trajectory in rows]
    groups = [(task, role) for task, role, _ in rows]
    flat = unanimous(of, groups)
    got = advantages(of, groups, list(range(len(rows))))
    for group in set(groups):
        own = [index for index, other in enumerate(groups) if other == group]
        assert (group in flat) == all(got[index] == 0 for index in own)
        assert flat.get(group, of[own[0]]) == of[own[0]]
