"""Drift between two runs: the index by hand, and which distribution moved."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_quality_check import good, rows

from envace.quality.drift import drifts, psi


def test_by_hand() -> None:
    # Shares .5/.5 against .8/.2, and a class that only one of them has counts for half a value.
    expected = (0.8 - 0.5) * math.log(0.8 / 0.5) + (0.2 - 0.5) * math.log(0.2 / 0.5)
    assert psi("aabb" * 5, "aaaab" * 4) == pytest.approx(expected)
    assert psi("aa", "ab") == pytest.approx(-0.5 * math.log(0.5) + (0.5 - 0.25) * math.log(0.5 / 0.25))


@given(st.text("abc", min_size=1, max_size=30), st.text("abc", min_size=1, max_size=30))
def test_symmetric_and_zero_for_the_same(one: str, other: str) -> None:
    assert psi(one, other) == pytest.approx(psi(other, one))
    assert psi(one, other) >= 0
    assert psi(one, one * 3) == pytest.approx(0, abs=1e-9)
    assert psi(one, "") == psi("", one) == 0


def test_each_distribution_on_its_own() -> None:
    former = [*good(), *rows("agenda", "move", 10, 0, predicted='{"error":"busy"}')]
    still = dict.fromkeys(("response length", "error rate", "tool mix"), 0.0)
    assert drifts(former, former) == still
    longer = [row.model_copy(update={"predicted": f"{row.predicted[:-1]}{' ' * 30}}}"}) for row in former]
    assert {name for name, index in drifts(former, longer).items() if index > 0.25} == {"response length"}
    refusing = [r.model_copy(update={"predicted": '{"error":1}', "call": "x"}) for r in former]
    assert drifts(former, refusing)["error rate"] > 0.25
    elsewhere = [row.model_copy(update={"tool": "other"}) for row in former]
    assert {name for name, index in drifts(former, elsewhere).items() if index > 0.25} == {"tool mix"}
    assert drifts([], former) == drifts(former, []) == still
