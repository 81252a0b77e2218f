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
from envace.rl.distributed import ALONE, Ranks, agree, clip_gradients, sum_gradients
from envace.rl.loss import cross_entropy, token_logprobs
from envace.rl.optimizer import MuonAdamW, warmup_then_linear
from envace.rl.passes import NOTHING, even_passes

POOL = 2000
"""Streams sorted by length together: little padding, yet shuffled batches."""
LOG_EVERY = 20
"""Steps averaged in one point of the learning curve."""


def warm_up(
    model: Any,
    train: Sequence[TokenStream],
    params: WarmupParams,
    seed: int,
    checkpoint: Checkpoint,
    ranks: Ranks = ALONE,
) -> list[dict[str, float]]:
    """Train in place, resuming where `checkpoint` left off; returns the learning curve.

    Args:
        model: Policy to train.
        train: Training streams.
        params: Hyper-parameters.
        seed: Seed of the batch order.
        checkpoint: Resume point of this run.
        ranks: All processes; each takes its share of every batch.
    """
    optimizer = MuonAdamW(model, params.matrix_rate, params.rest_rate)
    start, extra = checkpoint.load(model, {"optimizer": optimizer})
    agree(start, ranks, model.device)
    curve: list[dict[str, float]] = extra.get("curve", [])
    plan = schedule([len(stream) for stream in train], params, seed)
    window: list[tuple[float, float]] = extra.get("window", [])
    for step in track(range(params.steps), "warm-up", start, ranks.first):
        batch = collate([train[index] for index in ranks.own(plan[step])] or [NOTHING], model.device)
        roles = batch.roles[:, 1:]
        selected = roles != int(TokenRole.CONTEXT)
        logprobs, _ = token_logprobs(model, batch, selected)
        environment = roles[selected] == int(TokenRole.ENV)
        weights = torch.where(environment, params.environment_weight, 1.0)
        cross_entropy(logprobs, weights, ranks.sum(weights.sum())).backward()
        sum_gradients(model, ranks)
        clip_gradients(model)
        optimizer.step(warmup_then_linear(step, params.steps, warmup=80, hold=0.4, floor=0.03))
        window.append(_mean_losses(-logprobs.detach(), environment, ranks))
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
def held_out_losses(
    model: Any, streams: Sequence[TokenStream], token_budget: int, ranks: Ranks = ALONE
) -> dict[str, float]:
    """Mean loss per token of each role on streams that were not trained on, over all ranks."""
    sums = {TokenRole.ACT: 0.0, TokenRole.ENV: 0.0}
    counts = {TokenRole.ACT: 0, TokenRole.ENV: 0}
    own = ranks.own(streams)
    for chosen in even_passes([len(stream) for stream in own], token_budget, ranks.sum, model.device):
        batch = collate([own[index] for index in chosen] or [NOTHING], model.device)
        selected = batch.roles[:, 1:] != int(TokenRole.CONTEXT)
        logprobs, _ = token_logprobs(model, batch, selected)
        roles = batch.roles[:, 1:][selected]
        for role in sums:
            written = logprobs[roles == int(role)]
            sums[role] -= float(written.sum())
            counts[role] += len(written)
    local = torch.tensor([[sums[role], counts[role]] for role in sums], dtype=torch.float64)
    act, environment = (loss / max(1.0, count) for loss, count in ranks.sum(local.to(model.device)).tolist())
    return {"act_loss": act, "environment_loss": environment}


def _mean_losses(losses: torch.Tensor, environment: torch.Tensor, ranks: Ranks) -> tuple[float, float]:
    """Mean loss of act and of environment tokens over all ranks; 0 for a role without a token."""
    parts = [torch.stack([losses[own].sum(), own.sum().float()]) for own in (~environment, environment)]
    sums, counts = ranks.sum(torch.stack(parts)).unbind(1)
    act, env = (sums / counts.clamp(min=1)).tolist()
    return act, env
