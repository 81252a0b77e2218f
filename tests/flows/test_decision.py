"""The decision over a candidate: exact values for a gain, none, a fall elsewhere, too few tasks."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.decision import Rules, decide

LOOSE = Rules(min_tasks=2)


def scored(successes: int, of: int) -> dict[str, int]:
    """That many successes, on the first tasks."""
    return {f"t{i}": int(i < successes) for i in range(of)}


def test_a_gain_on_every_task_is_certain() -> None:
    found = decide({"worlds": scored(0, 200)}, {"worlds": scored(200, 200)}, Rules())
    assert (found.promote, found.tasks, found.gain, found.low, found.high) == (True, 200, 1.0, 1.0, 1.0)
    assert found.reason == "gain +100.0%, interval +100.0% to +100.0%"
    assert found.changes == {"worlds": 1.0}


def test_equal_policies_are_no_gain_whatever_they_fail() -> None:
    same = {"worlds": scored(70, 200), "tau2": scored(3, 9)}
    found = decide(same, same, Rules())
    assert (found.promote, found.gain, found.low, found.high) == (False, 0.0, 0.0, 0.0)
    assert found.reason == "no significant gain: +0.0%, interval +0.0% to +0.0%"


def test_the_interval_is_that_of_paired_tasks() -> None:
    """20 of 200 tasks won, none lost: the number won in a resample is binomial (200, 0.1)."""
    found = decide({"worlds": scored(100, 200)}, {"worlds": scored(120, 200)}, Rules(confidence=0.9))
    rng = random.Random(1)
    slow = sorted(sum(rng.random() < 0.1 for _ in range(200)) / 200 for _ in range(4000))
    assert found.gain == pytest.approx(0.1)
    assert found.low == pytest.approx(slow[200], abs=0.006)
    assert found.high == pytest.approx(slow[3800], abs=0.006)
    assert found.promote
    # As many won, but as many lost beside them: the same gain would need other tasks to be certain.
    shifted = {f"t{i}": int(i >= 90) for i in range(200)}
    assert not decide({"worlds": scored(100, 200)}, {"worlds": shifted}, Rules()).promote


def test_a_gain_below_the_least_is_none_even_if_certain() -> None:
    before, after = {"worlds": scored(0, 200)}, {"worlds": scored(40, 200)}
    assert decide(before, after, Rules(minimal_gain=0.2)).promote
    found = decide(before, after, Rules(minimal_gain=0.21))
    assert (found.promote, found.reason) == (False, "no gain: +20.0%, 21.0% needed")
    assert found.low > 0


def test_a_significant_gain_does_not_outweigh_a_benchmark_that_falls() -> None:
    before = {"worlds": scored(0, 200), "bfcl": scored(10, 20)}
    after = {"worlds": scored(200, 200), "bfcl": scored(9, 20)}
    found = decide(before, after, Rules(tolerance=0.02))
    assert found.low > 0
    assert (found.promote, found.reason) == (False, "bfcl falls by 5.0%, 2.0% is tolerated")
    assert found.changes == {"worlds": 1.0, "bfcl": -0.05}
    assert decide(before, after, Rules(tolerance=0.05)).promote  # exactly what is tolerated
    assert decide(before, after, Rules(tolerances={"bfcl": 0.05})).promote
    assert not decide(before, after, Rules(tolerance=0.5, tolerances={"bfcl": 0.0})).promote


def test_too_few_tasks_decide_nothing() -> None:
    before, after = {"worlds": scored(0, 99)}, {"worlds": scored(99, 99)}
    found = decide(before, after, Rules(min_tasks=100))
    assert (found.promote, found.tasks, found.reason) == (False, 99, "too few tasks: 99 of the 100 needed")
    assert decide(before, after, Rules(min_tasks=99)).promote


def test_only_tasks_of_both_count() -> None:
    before = {"worlds": scored(0, 150), "gone": scored(0, 500)}
    after = {"worlds": scored(300, 300), "new": scored(500, 500)}
    found = decide(before, after, Rules())
    assert (found.tasks, found.changes) == (150, {"worlds": 1.0})


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40))
def test_a_policy_and_its_opponent_are_never_both_better(pairs: list[tuple[int, int]]) -> None:
    one = {"b": {str(i): pair[0] for i, pair in enumerate(pairs)}}
    other = {"b": {str(i): pair[1] for i, pair in enumerate(pairs)}}
    there, back = decide(one, other, LOOSE), decide(other, one, LOOSE)
    assert there.gain == pytest.approx(-back.gain)
    assert not (there.promote and back.promote)
