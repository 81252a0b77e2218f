"""Drift: whether responses are distributed as in the last accepted run, by the population stability index.

PSI = Σ (p − q) · ln(p / q) over classes, p and q the shares of a class in the two runs. By custom below
0.1 nothing changed, and above 0.25 much did.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from envace.quality.records import RehearsedOutput
from envace.quality.rehearsal import decoded, is_error

CLASSES = 10
"""Response lengths fall on a decile of the accepted run, or between two."""
EMPTY = 0.5
"""What an empty class counts for, since its logarithm would be infinite."""


def psi(former: Iterable[Hashable], now: Iterable[Hashable]) -> float:
    """Population stability index of two samples of classes.

    Args:
        former: Class of every value of the accepted run.
        now: The same of this run.

    Returns:
        0 for equal shares; 0 as well when a sample is empty.
    """
    counts = Counter(former), Counter(now)
    totals = [counted.total() for counted in counts]
    if not all(totals):
        return 0.0
    shares = [
        [max(counted[name], EMPTY) / total for counted, total in zip(counts, totals, strict=True)]
        for name in counts[0].keys() | counts[1].keys()
    ]
    return math.fsum((p - q) * math.log(p / q) for p, q in shares)


def drifts(former: Sequence[RehearsedOutput], now: Sequence[RehearsedOutput]) -> dict[str, float]:
    """PSI of response length, error rate and tool mix between an accepted run and this one."""
    lengths = sorted(len(row.predicted) for row in former)
    edges = sorted({lengths[len(lengths) * at // CLASSES] for at in range(1, CLASSES)}) if lengths else []
    runs = former, now
    return {
        "response length": psi(*([_class(edges, len(row.predicted)) for row in run] for run in runs)),
        "error rate": psi(*([is_error(decoded(row.predicted)) for row in run] for run in runs)),
        "tool mix": psi(*([(row.world, row.tool) for row in run] for run in runs)),
    }


def _class(edges: Sequence[int], length: int) -> int:
    return bisect_left(edges, length) + bisect_right(edges, length)
