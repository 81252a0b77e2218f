"""Warm-up: cross-entropy on both roles, act + λ·environment, on world trajectories."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from envace.chat import TokenRole, TokenStream
from envace.errors import EnvaceError
from envace.params import WarmupParams
from envace.progress import track
from envace.rl.batch import by_token_budget, collate
from envace.rl.checkpoint import Checkpoint
from envace.rl.loss import cross_entropy, token_logprobs
from envace.rl.optimizer import MuonAdamW, warmup_then_linear

POOL = 2000
"""Streams sorted by length together: little padding, yet shuffled batches."""
LOG_EVERY = 20
"""Steps averaged in one point of the learning curve."""


def warm_up(
    model: Any, train: Sequence[TokenStream], params: WarmupParams, seed: int, checkpoint: Checkpoint
) -> list[dict[str, float]]:
    """Train in place, resuming where `checkpoint` left off; returns the learning curve.

    Args:
        model: Policy to train.
        train: Training streams.
        params: Hyper-parameters.
        seed: Seed of the batch order.
        checkpoint: Resume point of this run.
    """
    optimizer = MuonAdamW(model, params.matrix_rate, params.rest_rate)
    start, extra = checkpoint.load(model, {"optimizer": optimizer})
    curve: list[dict[str, float]] = extra.get("curve", [])
    plan = schedule([len(stream) for stream in train], params, seed)
    window: list[tuple[float, float]] = extra.get("window", [])
    for step in track(range(params.steps), "warm-up", start):
        batch = collate([train[index] for index in plan[step]], model.device)
        roles = batch.roles[:, 1:]
        selected = roles != int(TokenRole.CONTEXT)
        logprobs, _ = token_logprobs(model, batch, selected)
        environment = roles[selected] == int(TokenRole.ENV)
        weights = torch.where(environment, params.environment_weight, 1.0)
        cross_entropy(logprobs, weights).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(warmup_then_linear(step, params.steps, warmup=80, hold=0.4, floor=0.03))
        losses = -logprobs.detach()
        window.append((_mean(losses[~environment]), _mean(losses[environment])))
        done = step + 1
        if done % LOG_EVERY == 0 or done == params.steps:
            act, env = (sum(values) / len(window) for values in zip(*window, strict=True))
            curve.append({"step": done, "act_loss": act, "environment_loss": env})
            window = []
        if done % params.checkpoint_every == 0:
            checkpoint.save(model, {"optimizer": optimizer}, done, {"curve": curve, "window": window})
    return curve


def schedule(lengths: Sequence[int], params: WarmupParams, seed: int) -> list[list[int]]:
    """Batches of all steps as indices: shuffled epochs, similar lengths together."""
    if not lengths:
        raise EnvaceError("warm-up: no training trajectories", "see data/quarantine and data/clean for why")
    plan: list[list[int]] = []
    epoch = 0
    while len(plan) < params.steps:
        rng = random.Random(f"warmup/{seed}/{epoch}")
        order = list(range(len(lengths)))
        rng.shuffle(order)
        for start in range(0, len(order), POOL):
            pool = order[start : start + POOL]
            groups = list(by_token_budget([lengths[index] for index in pool], params.token_budget))
            rng.shuffle(groups)
            plan += [[pool[index] for index in group] for group in groups]
        epoch += 1
    return plan[: params.steps]


@torch.no_grad()
def held_out_losses(model: Any, streams: Sequence[TokenStream], token_budget: int) -> dict[str, float]:
    """Mean loss per token of each role on streams that were not trained on."""
    sums = {TokenRole.ACT: 0.0, TokenRole.ENV: 0.0}
    counts = {TokenRole.ACT: 0, TokenRole.ENV: 0}
    for chosen in by_token_budget([len(stream) for stream in streams], token_budget):
        batch = collate([streams[index] for index in chosen], model.device)
        selected = batch.roles[:, 1:] != int(TokenRole.CONTEXT)
        logprobs, _ = token_logprobs(model, batch, selected)
        roles = batch.roles[:, 1:][selected]
        for role in sums:
            own = logprobs[roles == int(role)]
            sums[role] -= float(own.sum())
            counts[role] += len(own)
    return {
        "act_loss": sums[TokenRole.ACT] / max(1, counts[TokenRole.ACT]),
        "environment_loss": sums[TokenRole.ENV] / max(1, counts[TokenRole.ENV]),
    }


def _mean(values: torch.Tensor) -> float:
    return float(values.mean()) if len(values) else 0.0
