"""Means, their uncertainty, and fair samples: pure functions, seeded."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from random import Random

DRAWS = 2000
"""Bootstrap resamples: the percentile ends move by well under a point between seeds."""


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; raises ZeroDivisionError on no values."""
    return math.fsum(values) / len(values)


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean, s/√n with n−1 in s; None below two values."""
    count = len(values)
    if count < 2:
        return None
    center = mean(values)
    return math.sqrt(math.fsum((v - center) ** 2 for v in values) / (count - 1) / count)


def macro_mean(strata: Sequence[Sequence[float]]) -> float:
    """Unweighted mean of the strata's means."""
    return mean([mean(values) for values in strata])


def macro_standard_error(strata: Sequence[Sequence[float]]) -> float | None:
    """Standard error of `macro_mean` for independent strata; None when a stratum has one value."""
    errors = [standard_error(values) for values in strata]
    known = [error for error in errors if error is not None]
    return math.sqrt(math.fsum(e * e for e in known)) / len(strata) if len(known) == len(errors) else None


def bootstrap_interval(
    strata: Sequence[Sequence[float]], seed: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of `macro_mean`, resampling within each stratum.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    import numpy as np

    draw = np.random.default_rng(seed)
    means = np.zeros(DRAWS)
    for values in map(np.asarray, strata):
        means += values[draw.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means / len(strata), [tail, 1 - tail])
    return float(low), float(high)


def pass_hat_k(successes: Sequence[Sequence[int]], k: int) -> float:
    """Chance that `k` trials of a task, drawn from those made, all succeed; the mean over tasks.

    C(c, k) / C(n, k) of a task with c successes in n trials. Source: τ-bench (arXiv 2406.12045), section 3.

    Args:
        successes: Trials of each task, 0 or 1; a task with fewer than `k` is left out.
        k: How many have to succeed.

    Raises:
        ZeroDivisionError: No task has that many.
    """
    enough = [trials for trials in successes if len(trials) >= k]
    return mean([math.comb(sum(trials), k) / math.comb(len(trials), k) for trials in enough])


def stratified_sample(ids: Mapping[str, Sequence[str]], limit: int, seed: int) -> dict[str, list[str]]:
    """At most `limit` ids of each category (0: all), in their original order.

    The sample of a category depends on its name and the seed alone: adding a category does not
    change the others, and a larger limit contains the smaller sample.
    """
    chosen = {}
    for category, all_ids in ids.items():
        key = hashlib.sha256(f"{seed}/{category}".encode()).digest()
        order = list(all_ids)
        Random(key).shuffle(order)
        kept = set(order[:limit] if limit else order)
        chosen[category] = [i for i in all_ids if i in kept]
    return chosen
