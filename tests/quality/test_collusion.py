"""The collusion alarm on planted series."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.errors import EnvaceError
from envace.quality import collusion


def ramp(start: float, end: float, steps: int = 40) -> list[float]:
    return [start + (end - start) * i / (steps - 1) for i in range(steps)]


def test_success_up_and_agreement_down_is_an_alarm() -> None:
    found = collusion(ramp(0.24, 0.80), ramp(0.58, 0.31))
    assert found.alarm
    # Means of steps 30..39 and 0..9 of a ramp differ by 30/39 of its whole change.
    assert found.success_change == pytest.approx(0.56 * 30 / 39)
    assert found.agreement_change == pytest.approx(-0.27 * 30 / 39)
    assert found.line.startswith("collusion: success rises while predictions stop being true")


@pytest.mark.parametrize(
    ("success", "agreement"),
    [
        (ramp(0.24, 0.95), ramp(0.58, 0.88)),
        (ramp(0.80, 0.20), ramp(0.80, 0.20)),
        (ramp(0.50, 0.90), ramp(0.80, 0.76)),
        (ramp(0.50, 0.54), ramp(0.80, 0.20)),
    ],
    ids=["honest learning", "collapse of both", "agreement within tolerance", "success within tolerance"],
)
def test_other_courses_are_not_alarms(success: list[float], agreement: list[float]) -> None:
    assert not collusion(success, agreement).alarm


def test_noise_around_constant_means_is_not_an_alarm() -> None:
    # 64 binary outcomes a step, 10 steps a window: the change has a standard error below 0.028.
    random.seed(0)
    for _ in range(200):
        noisy = [[sum(random.random() < 0.6 for _ in range(64)) / 64 for _ in range(40)] for _ in range(2)]
        assert not collusion(noisy[0], noisy[1], tolerance=0.10).alarm


def test_collusion_under_the_same_noise_is_found() -> None:
    random.seed(1)
    for _ in range(50):
        noisy = [
            [sum(random.random() < p for _ in range(64)) / 64 for p in ramp(*ends)]
            for ends in ((0.3, 0.7), (0.7, 0.3))
        ]
        assert collusion(noisy[0], noisy[1], tolerance=0.10).alarm


def test_steps_without_a_revealed_response_are_left_out_of_both_series() -> None:
    success = [0.0, 9.0, 0.0, 1.0, 9.0, 1.0]
    found = collusion(success, [1.0, None, 1.0, 0.0, None, 0.0])
    assert (found.window, found.success_change, found.agreement_change) == (2, 1.0, -1.0)


@pytest.mark.parametrize("steps", [0, 1])
def test_too_few_steps_is_no_alarm(steps: int) -> None:
    found = collusion([0.5] * steps, [0.5] * steps)
    assert (found.alarm, found.window, found.line) == (False, 0, "too few steps to compare")


def test_series_of_different_length_are_refused() -> None:
    with pytest.raises(EnvaceError, match="2 steps of success, 1 of agreement"):
        collusion([0.1, 0.2], [0.1])


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=60),
    st.floats(0, 1),
    st.integers(1, 30),
)
def test_reversed_in_time_never_also_alarms(
    pairs: list[tuple[float, float]], tolerance: float, window: int
) -> None:
    success, agreement = [s for s, _ in pairs], [a for _, a in pairs]
    forth = collusion(success, agreement, tolerance, window)
    back = collusion(success[::-1], agreement[::-1], tolerance, window)
    assert not (forth.alarm and back.alarm)
    assert forth.success_change == pytest.approx(-back.success_change)
