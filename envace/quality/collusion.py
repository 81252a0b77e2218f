"""The collusion alarm: success rises while rehearsed responses stop being true.

When only the task reward trains the environment role, the two roles can agree on a private
code: predictions then help the actor without describing the world. Success alone cannot show
it; success against agreement with the responses that committed calls reveal can.
"""

from collections.abc import Sequence

from envace.errors import EnvaceError
from envace.trajectory.records import Record


class CollusionReport(Record):
    """First window against last window of a training run."""

    alarm: bool
    """Success rose and agreement fell, each by more than the tolerance."""
    success_change: float
    """Mean success of the last window minus that of the first, in [-1, 1]."""
    agreement_change: float
    """The same for agreement with revealed responses."""
    window: int
    """Steps a window; 0 when the run is too short to compare."""
    line: str
    """The finding in one line."""


def collusion(
    success: Sequence[float],
    agreement: Sequence[float | None],
    tolerance: float = 0.05,
    window: int = 10,
) -> CollusionReport:
    """Compare the first and last steps of a run.

    Windows never overlap: a run shorter than two windows is split in halves, and below two
    usable steps there is nothing to compare and no alarm.

    Args:
        success: Mean task success a step, in [0, 1].
        agreement: Share of revealed responses predicted exactly, a step; None where a step
            revealed none (it is left out).
        tolerance: Change of a mean that is still noise. With m binary outcomes a window the
            standard error of a change is at most sqrt(0.5 / m): take twice that or more.
        window: Steps averaged at each end.

    Raises:
        EnvaceError: The series differ in length.
    """
    if len(success) != len(agreement):
        raise EnvaceError(
            f"collusion alarm: {len(success)} steps of success, {len(agreement)} of agreement",
            "log both every step",
        )
    pairs = [(s, a) for s, a in zip(success, agreement, strict=True) if a is not None]
    size = min(window, len(pairs) // 2)
    if size == 0:
        return CollusionReport(
            alarm=False, success_change=0.0, agreement_change=0.0, window=0, line="too few steps to compare"
        )
    rise, drift = (_mean(s[-size:]) - _mean(s[:size]) for s in zip(*pairs, strict=True))
    alarm = rise > tolerance and drift < -tolerance
    finding = "collusion: success rises while predictions stop being true" if alarm else "no collusion"
    return CollusionReport(
        alarm=alarm,
        success_change=rise,
        agreement_change=drift,
        window=size,
        line=f"{finding} (success {rise:+.2f}, agreement {drift:+.2f} over {len(pairs)} steps)",
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
