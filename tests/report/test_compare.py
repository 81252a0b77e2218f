"""Shares and differences against values computed by hand, and what must hold for any outcomes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.report.compare import direction, paired, proportion, unpaired

OUTCOMES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40)


def sides(pairs: list[tuple[int, int]]) -> tuple[dict[str, int], dict[str, int]]:
    return {str(i): a for i, (a, _) in enumerate(pairs)}, {str(i): b for i, (_, b) in enumerate(pairs)}


def test_a_share_and_its_wilson_interval() -> None:
    share = proportion(8, 10)
    assert share is not None
    assert (share.success, share.n) == (0.8, 10)
    assert share.se == pytest.approx(math.sqrt(0.8 * 0.2 / 10))
    # (0.8 + z²/20 ± z·sqrt(0.016 + z²/400)) / (1 + z²/10) with z² = 3.841459.
    assert (share.ci_low, share.ci_high) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


def test_no_success_puts_the_lower_end_at_zero_whatever_the_rounding() -> None:
    shares = [proportion(0, n) for n in range(1, 200)]
    assert all(share is not None and share.ci_low == 0.0 < share.ci_high for share in shares)


def test_a_certain_share_still_has_an_interval() -> None:
    share = proportion(30, 30)
    assert share is not None
    assert (share.se, share.ci_high) == (0.0, 1.0)
    assert share.ci_low == pytest.approx(30 / (30 + 1.959964**2), abs=1e-6)
    assert proportion(0, 0) is None


def test_a_paired_difference_takes_its_error_from_the_tasks() -> None:
    before = {"a": 0, "b": 1, "c": 0, "d": 0, "e": 1, "f": 0}
    after = {"a": 1, "b": 1, "c": 1, "d": 0, "e": 0, "f": 1}
    change = paired(before, after)
    # Differences 1, 0, 1, 0, -1, 1: mean 1/3, variance (10/3)/5, standard error sqrt((2/3)/6) = 1/3.
    assert change is not None
    assert (change.difference, change.se) == pytest.approx((1 / 3, 1 / 3))
    assert change.ci_low == pytest.approx(1 / 3 - 1.959964 / 3, abs=1e-6)
    assert (change.n, change.paired) == (6, True)
    assert direction(change.model_dump()) == 0


def test_only_tasks_on_both_sides_are_paired() -> None:
    change = paired({"a": 0, "b": 0, "gone": 1}, {"a": 1, "b": 0, "new": 1})
    assert change is not None
    assert (change.difference, change.n) == (0.5, 2)
    assert paired({"a": 0, "gone": 1}, {"a": 1, "new": 1}) is None


def test_an_unpaired_difference_adds_both_variances() -> None:
    change = unpaired(proportion(4, 8), proportion(12, 16))
    assert change is not None
    assert change.difference == 0.25
    assert change.se == pytest.approx(math.sqrt(0.25 / 8 + 0.1875 / 16))
    assert (change.n, change.paired) == (8, False)
    assert unpaired(None, proportion(1, 2)) is None


def test_intervals_stay_possible() -> None:
    change = paired({"a": 0, "b": 0, "c": 1}, {"a": 1, "b": 1, "c": 1})
    assert change is not None
    assert change.ci_high == 1.0


@given(OUTCOMES)
def test_a_difference_mirrors_when_the_sides_are_swapped(pairs: list[tuple[int, int]]) -> None:
    before, after = sides(pairs)
    there, back = paired(before, after), paired(after, before)
    assert there is not None and back is not None
    assert there.difference == pytest.approx(-back.difference)
    assert (there.ci_low, there.ci_high) == pytest.approx((-back.ci_high, -back.ci_low))
    assert direction(there.model_dump()) == -direction(back.model_dump())
    assert there.ci_low <= there.difference <= there.ci_high


@given(st.integers(0, 50), st.integers(1, 50))
def test_a_share_lies_in_its_interval(successes: int, more: int) -> None:
    share = proportion(successes, successes + more)
    assert share is not None
    assert 0 <= share.ci_low <= share.success <= share.ci_high <= 1
