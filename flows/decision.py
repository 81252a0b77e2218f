"""Whether a candidate replaces the champion: a pure function of how both did on the same tasks."""

from collections.abc import Mapping

from pydantic import Field

from envace.benchmarks.stats import bootstrap_interval, mean
from envace.trajectory.records import Record

Successes = Mapping[str, Mapping[str, int]]
"""Success (0 or 1) by benchmark and task."""
ROUNDING = 1e-9
"""Below this, a difference of two shares is one of rounding."""


class Rules(Record):
    """When a candidate is better."""

    minimal_gain: float = Field(default=0.0, ge=0, le=1)
    """Gain over all tasks that it must reach at least."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """Of the interval of the gain, whose lower end must be above 0."""
    min_tasks: int = Field(default=100, ge=2)
    """Tasks that both must have been measured on."""
    tolerance: float = Field(default=0.02, ge=0, le=1)
    """By how much a benchmark may fall."""
    tolerances: dict[str, float] = Field(default_factory=dict)
    """The same for single benchmarks, such as those of few tasks."""
    seed: int = 1
    """Of the bootstrap."""


class Decision(Record):
    """What was decided, and why."""

    promote: bool
    """The candidate becomes the champion."""
    reason: str
    """Why, in one line."""
    tasks: int = 0
    """Tasks compared."""
    gain: float = 0.0
    """Success of the candidate minus that of the champion, over all tasks."""
    low: float = 0.0
    """Lower end of its interval."""
    high: float = 0.0
    """Upper end of it."""
    changes: dict[str, float] = Field(default_factory=dict)
    """The same difference by benchmark."""


def decide(champion: Successes, candidate: Successes, rules: Rules) -> Decision:
    """Compare two policies task by task; a task that only one was measured on does not count.

    The interval is that of the paired bootstrap over tasks: differences are resampled, not policies.
    Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    pairs = {
        name: [candidate[name][task] - success for task, success in before.items() if task in candidate[name]]
        for name, before in champion.items()
        if name in candidate
    }
    differences = [difference for values in pairs.values() for difference in values]
    if len(differences) < rules.min_tasks:
        return Decision(
            promote=False,
            reason=f"too few tasks: {len(differences)} of the {rules.min_tasks} needed",
            tasks=len(differences),
        )
    gain = mean(differences)
    low, high = bootstrap_interval([differences], rules.seed, rules.confidence)
    changes = {name: mean(values) for name, values in pairs.items() if values}
    reason = _fallen(changes, rules)
    if gain < rules.minimal_gain - ROUNDING:
        reason = f"no gain: {gain:+.1%}, {rules.minimal_gain:.1%} needed"
    elif low <= 0:
        reason = f"no significant gain: {gain:+.1%}, interval {low:+.1%} to {high:+.1%}"
    return Decision(
        promote=not reason,
        reason=reason or f"gain {gain:+.1%}, interval {low:+.1%} to {high:+.1%}",
        tasks=len(differences),
        gain=gain,
        low=low,
        high=high,
        changes=changes,
    )


def _fallen(changes: Mapping[str, float], rules: Rules) -> str:
    """The benchmark that falls furthest beyond what it may; empty when none does."""
    beyond = {name: -change - rules.tolerances.get(name, rules.tolerance) for name, change in changes.items()}
    worst = max(beyond, key=beyond.__getitem__)
    if beyond[worst] <= ROUNDING:
        return ""
    allowed = rules.tolerances.get(worst, rules.tolerance)
    return f"{worst} falls by {-changes[worst]:.1%}, {allowed:.1%} is tolerated"
