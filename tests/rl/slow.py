"""The objective of an update once more, one token at a time, and what to compare gradients with."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch

from envace.chat import TokenRole
from envace.rl.rows import PolicyRow
from envace.rl.settings import UpdateSettings
from envace.rollout.episode import Episode, Row

ACT, ENV = int(TokenRole.ACT), int(TokenRole.ENV)
NAMES = {ACT: "act", ENV: "environment"}


def gradients(model: Any) -> dict[str, torch.Tensor]:
    """Every gradient there is, by parameter."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], tolerance: float = 1e-4) -> None:
    """Fail unless the gradients agree within a share of the norm of all of them."""
    assert left.keys() == right.keys() and left
    scale = norm(right)
    assert scale > 0
    for name in left:
        assert float((left[name] - right[name]).norm()) < tolerance * scale, name


def norm(found: dict[str, torch.Tensor]) -> float:
    """Norm of all gradients together."""
    return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in found.values()))


def policy_row(
    episode: Episode, act: float | None = None, env: float | None = None, logprobs: Sequence[float] = ()
) -> PolicyRow:
    """The one row of an inline episode, with advantages and, if given, other old log-probabilities."""
    (row,) = episode.rows()
    if logprobs:
        row = Row(row.stream, tuple(logprobs))
    return PolicyRow(row, {role: value for role, value in ((ACT, act), (ENV, env)) if value is not None})


@torch.no_grad()
def logprobs_of(model: Any, ids: Sequence[int]) -> list[float]:
    """Log-probability of every token under the model; 0 for the first, which nobody drew."""
    table = model(input_ids=torch.tensor([list(ids)])).logits[0].log_softmax(-1)
    return [0.0, *(float(table[at - 1, ids[at]]) for at in range(1, len(ids)))]


def drawn_from(model: Any, row: PolicyRow, noise: Sequence[float] = (0.0,)) -> PolicyRow:
    """The row as `model` would have sampled it; `noise` is added to log-probabilities in turn."""
    own = logprobs_of(model, row.row.stream.ids)
    noisy = tuple(value + noise[at % len(noise)] for at, value in enumerate(own))
    return dataclasses.replace(row, row=Row(row.row.stream, noisy))


def slow_update(
    model: Any,
    rows: Sequence[PolicyRow],
    settings: UpdateSettings,
    reference: Any = None,
    markers: Sequence[int] = (),
) -> dict[str, float]:
    """Gradient of the whole objective, token by token; returns its losses by role and in sum."""
    tokens = {role: sum(row.tokens(role) for row in rows) for role in (ACT, ENV)}
    taking_part = {role: sum(row.tokens(role) > 0 for row in rows) for role in (ACT, ENV)}
    weight_of = {ACT: settings.act_weight, ENV: settings.environment_weight}
    losses = {ACT: torch.zeros(()), ENV: torch.zeros(())}
    extra = torch.zeros(())
    for row in rows:
        ids, roles = row.row.stream.ids, row.row.stream.roles
        logits = model(input_ids=torch.tensor([ids])).logits[0] / settings.temperature
        table = logits.log_softmax(-1)
        anchor = logprobs_of(reference, ids) if reference is not None else [0.0] * len(ids)
        for at in range(1, len(ids)):
            role = roles[at]
            if role not in row.by_role:
                continue
            advantage, new = row.by_role[role], table[at - 1, ids[at]]
            ratio = (new - row.row.logprobs[at]).exp()
            inside = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
            objective = min(ratio * advantage, inside * advantage)
            if advantage < 0:
                objective = max(objective, torch.tensor(settings.dual_clip * advantage))
            loss = -objective
            if settings.kl:
                loss = loss + settings.kl * ((anchor[at] - new).exp() - 1 - (anchor[at] - new))
            weight = {
                "token_mean": 1 / tokens[role],
                "row_mean": 1 / (taking_part[role] * row.tokens(role)),
                "dr_grpo": 1 / (taking_part[role] * settings.max_length),
            }[settings.aggregation]
            losses[role] = losses[role] + weight * loss
            if role == ACT:
                p = table[at - 1].exp()
                extra = extra + settings.entropy * (p * table[at - 1]).sum() / tokens[ACT]
                if settings.leak_penalty:
                    bad = sum(p[marker] for marker in markers)
                    extra = extra - settings.leak_penalty * (1 - bad).log() / tokens[ACT]
    policy = sum(weight_of[role] * losses[role] for role in losses)
    (policy + extra).backward()
    return {"policy_loss": policy.item()} | {
        f"{NAMES[r]}_loss": losses[r].item() for r in losses if tokens[r]
    }
