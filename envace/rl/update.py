"""The policy-gradient half of a step: role-wise GRPO over rehearsed roll-outs.

    loss = Σ_act clip(ρ)·A_act / n_act + λ·Σ_env clip(ρ)·A_env / n_env − β·entropy(act)

The environment term is there under `grpo` and `both` (the paper's objective). With the task
reward alone the two roles can collude: predictions become a private code that raises success
while it stops being true. Observation (`envace.rl.observe`) anchors them to what the committed
calls revealed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from envace.chat import TokenRole, TokenStream
from envace.rl.advantage import advantages
from envace.rl.batch import by_token_budget, collate
from envace.rl.experience import Experience, predictions_hold
from envace.rl.loss import policy_gradient, token_logprobs
from envace.rollout.episode import Episode

EnvironmentUpdate = Literal["grpo", "observe", "both", "none"]


@dataclass(frozen=True)
class UpdateSettings:
    """Hyper-parameters of one update."""

    environment: EnvironmentUpdate = "observe"
    """How the environment role learns."""
    environment_weight: float = 1.0
    """λ: weight of the environment role's terms."""
    mask_untrue: bool = False
    """Leave roll-outs out whose rehearsed responses the world contradicted."""
    std: bool = True
    """Divide advantages by the group's spread."""
    clip: float = 0.2
    """PPO clip range."""
    dual_clip: float = 3.0
    """Bound for negative advantages."""
    entropy: float = 0.0
    """β: entropy bonus on act tokens."""
    token_budget: int = 6000
    """Tokens of one micro-batch, padding included."""


@dataclass(frozen=True)
class PolicyRow:
    """One episode with the advantage of each role's tokens."""

    episode: Episode
    """The roll-out."""
    by_role: dict[int, float]
    """Advantage by token role; a role left out carries no loss."""


def policy_rows(experience: Experience, group: int, settings: UpdateSettings) -> list[PolicyRow]:
    """Rows with a nonzero advantage; branches of a rehearsal share their trajectory's.

    With `mask_untrue`, a roll-out whose rehearsed responses turned out wrong leaves both the
    baseline and the loss: the act role answered a world that does not exist, and blaming or
    praising it for the outcome is noise.
    """
    pairs = list(zip(experience.scored, experience.rehearsals, strict=True))
    kept = [
        index for index, pair in enumerate(pairs) if not settings.mask_untrue or all(predictions_hold(*pair))
    ]
    scores = [pairs[index][0].reward for index in kept]
    values = advantages(scores, [index // group for index in kept], kept, std=settings.std)
    rows: list[PolicyRow] = []
    rewarded = settings.environment in ("grpo", "both")
    for index, value in zip(kept, values, strict=True):
        scored, rehearsal = pairs[index]
        if value == 0.0:
            continue
        by_role = {int(TokenRole.ACT): value}
        if rewarded:
            by_role[int(TokenRole.ENV)] = value
        rows.append(PolicyRow(scored.episode, by_role))
        if rewarded and rehearsal is not None:
            rows += [PolicyRow(branch, {int(TokenRole.ENV): value}) for branch in rehearsal.branches]
    return rows


def backward(
    model: Any, rows: Sequence[PolicyRow], settings: UpdateSettings, never: Sequence[int] = ()
) -> dict[str, float]:
    """Accumulate the policy gradient; returns loss parts and the sampler gap.

    Args:
        model: Policy; its gradients are added to.
        rows: Episodes with advantages; none gives no gradient.
        settings: Hyper-parameters.
        never: Ids that the sampler never draws.
    """
    if not rows:
        return {}
    streams = [row.episode.stream() for row in rows]
    counts = {
        role: max(
            1, sum(s.roles.count(role) for s, r in zip(streams, rows, strict=True) if role in r.by_role)
        )
        for role in (int(TokenRole.ACT), int(TokenRole.ENV))
    }
    scale = {int(TokenRole.ACT): 1.0, int(TokenRole.ENV): settings.environment_weight}
    loss_sum = entropy_sum = gap_sum = 0.0
    tokens = 0
    for chosen in _groups(streams, settings):
        batch = collate([streams[i] for i in chosen])
        advantage = torch.zeros(batch.ids.shape)
        weight = torch.zeros(batch.ids.shape)
        old = torch.zeros(batch.ids.shape)
        for position, index in enumerate(chosen):
            row, start = rows[index], len(rows[index].episode.prompt)
            length = len(streams[index])
            old[position, start:length] = torch.tensor(row.episode.logprobs[: length - start])
            for role, value in row.by_role.items():
                own = batch.roles[position] == role
                advantage[position, own] = value
                weight[position, own] = scale[role] / counts[role]
        selected = weight[:, 1:] > 0
        if not selected.any():
            continue
        logprobs, entropy = token_logprobs(model, batch, selected, never=never)
        old_chosen, chosen_weight = old[:, 1:][selected], weight[:, 1:][selected]
        loss = policy_gradient(
            logprobs, old_chosen, advantage[:, 1:][selected], chosen_weight, settings.clip, settings.dual_clip
        )
        act = (batch.roles[:, 1:] == int(TokenRole.ACT))[selected]
        bonus = (entropy * act).sum() / counts[int(TokenRole.ACT)]
        (loss - settings.entropy * bonus).backward()
        loss_sum += loss.item()
        entropy_sum += bonus.item()
        gap_sum += float((logprobs.detach() - old_chosen).abs().sum())
        tokens += int(selected.sum())
    return {
        "policy_loss": loss_sum,
        "act_entropy": entropy_sum,
        "sampler_gap": gap_sum / max(1, tokens),
    }


def _groups(streams: Sequence[TokenStream], settings: UpdateSettings) -> Iterator[list[int]]:
    return by_token_budget([len(stream) for stream in streams], settings.token_budget)
