"""Losses as functions of token log-probabilities; the model appears only in `log_distributions`."""

from collections.abc import Sequence
from typing import Any

import torch

from envace.models.forward import selected_logits
from envace.models.precision import products
from envace.rl.batch import Batch, Inputs

NEGATIVE = -1e9
LOG_RATIO = 20.0
"""Log-ratios are cut here: beyond it their exponential overflows, and inf · 0 is not a number."""


def autocast(enabled: bool, device: str = "cpu") -> torch.autocast:
    """bfloat16 matrix products where the device has them: twice the speed; weights stay float32."""
    fast = products(enabled, device) is torch.bfloat16
    return torch.autocast(device, torch.bfloat16, enabled=fast)


def log_distributions(
    model: Any,
    inputs: Inputs,
    bfloat16: bool = True,
    never: Sequence[int] = (),
    temperature: float = 1.0,
) -> torch.Tensor:
    """The distribution that each wanted token was drawn from.

    Args:
        model: A transformers causal LM, on the device of `inputs`.
        inputs: Sequences and the places wanted; the language-model head runs on these only.
        bfloat16: Run matrix products in bfloat16.
        never: Ids that the sampler never draws; left out here too, so that both sides mean
            the same distribution.
        temperature: The sampler's temperature, for the same reason.

    Returns:
        Log-probabilities, [tokens, vocabulary], float32.
    """
    with autocast(bfloat16, inputs.ids.device.type):
        logits = selected_logits(model, inputs.ids, inputs.sources, inputs.positions, inputs.attention)
    logits = logits.float()
    if never:
        logits[:, list(never)] = NEGATIVE
    if temperature != 1.0:
        logits = logits / temperature
    return logits.log_softmax(-1)


def token_logprobs(
    model: Any,
    batch: Batch,
    selected: torch.Tensor,
    bfloat16: bool = True,
    never: Sequence[int] = (),
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of selected target tokens and entropies of their distributions.

    Args:
        model: A transformers causal LM.
        batch: Padded rows.
        selected: Which tokens of `batch.ids[:, 1:]` are wanted, bool [rows, length - 1].
        bfloat16: Run matrix products in bfloat16.
        never: Ids that the sampler never draws.

    Returns:
        Log-probabilities and entropies, each [number selected], float32; entropies carry no gradient.
    """
    rows, places = selected.nonzero(as_tuple=True)
    inputs = Inputs(batch.ids, rows * batch.ids.shape[1] + places)
    table = log_distributions(model, inputs, bfloat16, never)
    return of_ids(table, batch.ids[:, 1:][selected]), entropies(table.detach())


def of_ids(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Log-probability of each id, [tokens], from log-probabilities, [tokens, vocabulary]."""
    return table.gather(1, ids[:, None])[:, 0]


def entropies(table: torch.Tensor) -> torch.Tensor:
    """Entropy of each distribution in nats, [tokens], from log-probabilities, [tokens, vocabulary]."""
    return -(table.exp() * table).sum(-1)


def cross_entropy(
    logprobs: torch.Tensor, weights: torch.Tensor, total: torch.Tensor | None = None
) -> torch.Tensor:
    """Weighted mean negative log-likelihood, Σ w·(−log p) / Σ w.

    Args:
        logprobs: Log-probabilities, [tokens].
        weights: Weight of each token, [tokens].
        total: Σ w where these tokens are a part of all; the sum over the parts is then the mean.
    """
    total = weights.sum() if total is None else total
    return -(logprobs * weights).sum() / total.clamp(min=1e-8)


def policy_gradient(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 3.0,
) -> torch.Tensor:
    """PPO-clipped policy-gradient loss of each token, with dual clip (Ye et al. 2020).

    Args:
        logprobs: Current log-probabilities, [tokens].
        old_logprobs: Log-probabilities at sampling time, [tokens].
        advantages: Advantage of each token, [tokens].
        clip_low: The ratio is clipped below at 1 - clip_low.
        clip_high: The ratio is clipped above at 1 + clip_high.
        dual_clip: For negative advantages the objective is at least `dual_clip * A`, so
            that one very unlikely token cannot dominate a step.

    Returns:
        Losses, [tokens], not yet weighted.
    """
    ratio = _log_ratio(logprobs, old_logprobs).exp()
    clamped = ratio.clamp(1 - clip_low, 1 + clip_high)
    surrogate = torch.minimum(ratio * advantages, clamped * advantages)
    return -torch.where(advantages < 0, torch.maximum(surrogate, dual_clip * advantages), surrogate)


def clipped(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 3.0,
) -> torch.Tensor:
    """Tokens that a clip keeps from moving, bool [tokens]; arguments as in `policy_gradient`."""
    ratio = _log_ratio(logprobs, old_logprobs).exp()
    raised = (advantages > 0) & (ratio > 1 + clip_high)
    lowered = (advantages < 0) & ((ratio < 1 - clip_low) | (ratio > dual_clip))
    return raised | lowered


def k3(own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Unbiased, nonnegative estimate of KL(own ‖ other) from tokens drawn from `own` (Schulman 2020).

    Args:
        own: Log-probabilities under the distribution sampled from, [tokens].
        other: Log-probabilities of the same tokens under the other one, [tokens].

    Returns:
        r − 1 − log r with r = other / own, [tokens].
    """
    log_ratio = _log_ratio(other, own)
    return log_ratio.exp() - 1 - log_ratio


def unlikelihood(table: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """Unlikelihood of some ids, −log(1 − Σ p(id)), [tokens] (Welleck et al. 2020).

    Args:
        table: Log-probabilities, [tokens, vocabulary].
        ids: Ids that should not be written here, at least one.
    """
    mass = table[:, list(ids)].exp().sum(-1)
    # Where the mass is 1 in float32 the loss would be infinite.
    return -torch.log1p(-mass.clamp(max=1 - 1e-6))


def _log_ratio(numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    return (numerator - denominator).clamp(-LOG_RATIO, LOG_RATIO)
