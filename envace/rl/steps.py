"""Several optimizer steps on one batch of roll-outs."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence

from envace.errors import EnvaceError
from envace.rl.rows import PolicyRow
from envace.rl.settings import UpdateSettings


def optimize(
    rows: Sequence[PolicyRow],
    settings: UpdateSettings,
    gradient: Callable[[Sequence[PolicyRow]], dict[str, float]],
    step: Callable[[], float],
    seed: int = 0,
) -> dict[str, float]:
    """All optimizer steps of one batch of roll-outs.

    From the second step on the policy is no longer the sampler's: old log-probabilities stay those
    of sampling, and the clips start to matter.

    Args:
        rows: Rows with advantages.
        settings: `epochs`, `minibatches` and `max_sampler_gap` are read.
        gradient: Accumulates the gradient of some rows, `backward` with everything else bound.
        step: Clips, applies and clears the gradient; returns its norm.
        seed: Of the minibatches.

    Returns:
        Means over the optimizer steps for the log; `sampler_gap` is the first step's alone, when
        policy and sampler should still be the same.

    Raises:
        EnvaceError: They are not, by more than `max_sampler_gap`; nothing has been changed.
    """
    logs: list[dict[str, float]] = []
    for epoch in range(settings.epochs):
        for part in minibatches(rows, settings.minibatches, f"{seed}/{epoch}"):
            log = gradient(part)
            gap = log.get("sampler_gap", 0.0)
            if not logs and gap > settings.max_sampler_gap:
                raise EnvaceError(
                    f"sampler and trainer differ by {gap:.3g} nats a token, limit {settings.max_sampler_gap}",
                    "same weights and temperature on both sides, and no top-p, which cuts the distribution",
                )
            logs.append(log | {"gradient_norm": step()})
    values: dict[str, list[float]] = defaultdict(list)
    for log in logs:
        for name, value in log.items():
            values[name].append(value)
    means = {name: sum(own) / len(own) for name, own in values.items()}
    return means | {name: value for name, value in logs[0].items() if name == "sampler_gap"}


def minibatches(rows: Sequence[PolicyRow], count: int, seed: str) -> list[list[PolicyRow]]:
    """Deal rows out to `count` parts whose sizes differ by one at most; one part keeps the order."""
    order = list(rows)
    if count > 1:
        random.Random(f"minibatches/{seed}").shuffle(order)
    return [order[start::count] for start in range(count)]
