"""Shares with their uncertainty, and differences of two shares: paired by task, or not."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from envace.benchmarks.stats import mean, standard_error
from envace.trajectory.records import Record

Z = NormalDist().inv_cdf(0.975)
"""Half width of a 95 % normal interval in standard errors."""


class Proportion(Record):
    """A share of successes."""

    success: float
    """In [0, 1]."""
    se: float
    """Standard error, sqrt(p(1−p)/n)."""
    n: int
    """Tasks."""
    ci_low: float
    """Lower end of the 95 % Wilson interval, which stays honest at 0 and 1, where `se` is 0."""
    ci_high: float
    """Upper end of it."""


class Difference(Record):
    """One share minus another."""

    difference: float
    """In [-1, 1]."""
    se: float
    """Standard error: of the mean per-task difference where paired."""
    ci_low: float
    """Lower end of the 95 % normal interval, cut at -1."""
    ci_high: float
    """Upper end of it, cut at 1."""
    n: int
    """Pairs; for unpaired samples the smaller sample."""
    paired: bool
    """Taken over the same tasks."""


def proportion(successes: int, n: int) -> Proportion | None:
    """A share and its interval; None without tasks.

    Source of the interval: Wilson, J. Am. Stat. Assoc. 22 (1927), 209-212.
    """
    if n == 0:
        return None
    p = successes / n
    scale = 1 + Z * Z / n
    center = (p + Z * Z / (2 * n)) / scale
    half = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n)) / scale
    return Proportion(
        success=p,
        se=math.sqrt(p * (1 - p) / n),
        n=n,
        # At 0 and 1 an end equals the share, but for rounding.
        ci_low=min(p, max(0.0, center - half)),
        ci_high=max(p, min(1.0, center + half)),
    )


def paired(before: Mapping[str, int], after: Mapping[str, int]) -> Difference | None:
    """Mean of after − before over the tasks that both hold; None below two of them.

    Args:
        before: Success (0 or 1) by task id.
        after: The same after the change.
    """
    differences = [after[i] - before[i] for i in before if i in after]
    se = standard_error(differences)
    return None if se is None else _difference(mean(differences), se, len(differences), True)


def unpaired(before: Proportion | None, after: Proportion | None) -> Difference | None:
    """after − before as if the samples were independent, as they may be; None where one is absent."""
    if before is None or after is None:
        return None
    se = math.hypot(before.se, after.se)
    return _difference(after.success - before.success, se, min(before.n, after.n), False)


def direction(difference: Mapping[str, float]) -> int:
    """1 or -1 where the interval of a dumped `Difference` lies on one side of 0; 0: no significant change."""
    return int(difference["ci_low"] > 0) - int(difference["ci_high"] < 0)


def average(values: Sequence[float]) -> float | None:
    """Mean; None without values."""
    return mean(values) if values else None


def _difference(value: float, se: float, n: int, is_paired: bool) -> Difference:
    return Difference(
        difference=value,
        se=se,
        ci_low=max(-1.0, value - Z * se),
        ci_high=min(1.0, value + Z * se),
        n=n,
        paired=is_paired,
    )
