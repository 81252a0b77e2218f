"""The policy-gradient half of a step: role-wise GRPO over rehearsed roll-outs.

    loss = Σ_role weight(role) · Σ_tokens w · (clip(ρ)·A + kl·k3) − β·entropy(act) + leak·unlikelihood(act)

with w from `envace.rl.aggregate`; for the token mean, 1 / tokens of that role. The environment
term is there under `grpo` and `both` (the paper's objective). With the task reward alone the two
roles can collude: predictions become a private code that raises success while it stops being
true. Observation (`envace.rl.observe`) anchors them to what the committed calls revealed.
"""

from collections.abc import Sequence
from typing import Any

import torch

from envace.errors import EnvaceError
from envace.rl.aggregate import Across, alone, token_weights
from envace.rl.loss import (
    clipped,
    entropies,
    k3,
    log_distributions,
    of_ids,
    policy_gradient,
    unlikelihood,
)
from envace.rl.pack import PADDING, pack
from envace.rl.passes import even_passes
from envace.rl.rows import ACT, ROLES, PolicyRow
from envace.rl.settings import UpdateSettings
from envace.rl.targets import Targets, gather

SUMS = ("loss", "clipped", "approx_kl", "kl", "entropy", "gap", "leaked", "unlikelihood")
"""What is summed over the tokens of each role, for the log."""


def backward(
    model: Any,
    rows: Sequence[PolicyRow],
    settings: UpdateSettings,
    never: Sequence[int] = (),
    environment_only: Sequence[int] = (),
    reference: Any = None,
    across: Across = alone,
) -> dict[str, float]:
    """Accumulate the policy gradient of these rows.

    Args:
        model: Policy; its gradients are added to.
        rows: Rows with advantages, of this rank; a row without roles changes nothing.
        settings: Hyper-parameters.
        never: Ids that the sampler never draws.
        environment_only: Ids that only the environment role may write: a leak inside an act span.
        reference: Frozen model that `settings.kl` measures from.
        across: Sums over ranks. Denominators are global, so the gradients of all ranks sum up to
            that of one process with all rows, however unevenly they are spread.

    Returns:
        Global means for the log; empty where no rank has a token to train.

    Raises:
        EnvaceError: `settings.kl` without a reference model, `settings.leak_penalty` without ids.
    """
    if settings.kl and reference is None:
        raise EnvaceError("kl is on without a reference model", "pass one, or set kl to 0")
    if settings.leak_penalty and not environment_only:
        raise EnvaceError("leak_penalty is on, but no marker is the environment's alone", "set it to 0")
    lengths = {role: [row.tokens(role) for row in rows] for role in ROLES}
    # Counted on the model's device: that is where ranks can add up.
    local = [[sum(own), sum(map(bool, own))] for own in lengths.values()]
    counts = across(torch.tensor(local, dtype=torch.float64, device=model.device)).tolist()
    tokens = {role: count for role, (count, _) in zip(ROLES, counts, strict=True) if count}
    if not tokens:
        return {}
    weights = {
        role: token_weights(own, count, taking_part, settings.aggregation, settings.max_length)
        for (role, own), (count, taking_part) in zip(lengths.items(), counts, strict=True)
    }
    streams = [row.row.stream for row in rows]
    packs = pack(streams, model.config._attn_implementation, settings.token_budget)
    sums = torch.zeros(len(ROLES), len(SUMS), device=model.device)
    packed_lengths = [len(packed.ids) for packed in packs]
    for chosen in even_passes(packed_lengths, settings.token_budget, across, model.device):
        own_packs = [packs[at] for at in chosen] or [PADDING]
        targets = gather(own_packs, rows, weights, model.device, settings.bfloat16)
        sums += _one_pass(model, targets, tokens, settings, never, environment_only, reference)
    return _report(across(sums).tolist(), tokens, settings, bool(environment_only))


def _one_pass(
    model: Any,
    targets: Targets,
    tokens: dict[int, float],
    settings: UpdateSettings,
    never: Sequence[int],
    environment_only: Sequence[int],
    reference: Any,
) -> torch.Tensor:
    """Add the gradient of one forward pass; returns sums over tokens, [roles, SUMS]."""
    distribution = settings.bfloat16, never, settings.temperature
    table = log_distributions(model, targets.inputs, *distribution)
    logprobs, old = of_ids(table, targets.ids), targets.old_logprobs
    clips = settings.clip_low, settings.clip_high, settings.dual_clip
    losses = policy_gradient(logprobs, old, targets.advantages, *clips)
    divergence = torch.zeros_like(losses)
    if settings.kl:
        with torch.no_grad():
            anchor = log_distributions(reference, targets.inputs, *distribution)
        divergence = k3(logprobs, of_ids(anchor, targets.ids))
        losses = losses + settings.kl * divergence
    # Entropy is always logged, but its gradient is as costly as the loss's: only where it is used.
    entropy = entropies(table if settings.entropy else table.detach())
    markers = torch.tensor(environment_only, dtype=torch.long, device=old.device)
    leak = torch.zeros_like(losses)
    if settings.leak_penalty:
        leak = unlikelihood(table, environment_only)

    act = targets.roles == ACT
    role_weights = torch.where(act, settings.act_weight, settings.environment_weight)
    total = (losses * targets.weights * role_weights).sum()
    regularizer = settings.leak_penalty * leak - settings.entropy * entropy
    total = total + (regularizer * act).sum() / max(1.0, tokens.get(ACT, 0.0))
    total.backward()

    with torch.no_grad():
        by_name = {
            "loss": losses * targets.weights,
            "clipped": clipped(logprobs, old, targets.advantages, *clips),
            "approx_kl": k3(old, logprobs),
            "kl": divergence,
            "entropy": entropy,
            "gap": (logprobs - old).abs(),
            "leaked": torch.isin(targets.ids, markers),
            "unlikelihood": leak,
        }
        values = torch.stack([by_name[name].float() for name in SUMS])
        return torch.stack([values[:, targets.roles == role].sum(1) for role in ROLES])


def _report(
    sums: list[list[float]], tokens: dict[int, float], settings: UpdateSettings, leaks: bool
) -> dict[str, float]:
    """Sums over tokens as the means of the log."""
    by_role = {role: dict(zip(SUMS, row, strict=True)) for role, row in zip(ROLES, sums, strict=True)}
    trained = sum(tokens.values())
    role_weights = dict(zip(ROLES, (settings.act_weight, settings.environment_weight), strict=True))
    report = {
        "policy_loss": sum(role_weights[role] * by_role[role]["loss"] for role in ROLES),
        "approx_kl": sum(by_role[role]["approx_kl"] for role in ROLES) / trained,
        "sampler_gap": sum(by_role[role]["gap"] for role in ROLES) / trained,
    }
    if settings.kl:
        report["kl"] = sum(by_role[role]["kl"] for role in ROLES) / trained
    for role, count in tokens.items():
        name, own = ROLES[role], by_role[role]
        report |= {
            f"{name}_loss": own["loss"],
            f"{name}_tokens": count,
            f"{name}_clipped": own["clipped"] / count,
            f"{name}_entropy": own["entropy"] / count,
        }
    if leaks and ACT in tokens:
        report["leak_rate"] = by_role[ACT]["leaked"] / tokens[ACT]
        if settings.leak_penalty:
            report["leak_loss"] = by_role[ACT]["unlikelihood"] / tokens[ACT]
    return report
