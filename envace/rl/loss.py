"""Losses as functions of token log-probabilities; the model appears only in `token_logprobs`."""

from collections.abc import Sequence
from typing import Any

import torch

from envace.rl.batch import Batch

NEGATIVE = -1e9


def autocast(enabled: bool) -> torch.autocast:
    """bfloat16 matrix products on a CPU: twice the speed, weights stay float32."""
    return torch.autocast("cpu", torch.bfloat16, enabled=enabled)


def token_logprobs(
    model: Any,
    batch: Batch,
    selected: torch.Tensor,
    bfloat16: bool = True,
    never: Sequence[int] = (),
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of selected target tokens.

    Args:
        model: A transformers causal LM.
        batch: Padded rows.
        selected: Which tokens of `batch.ids[:, 1:]` are wanted, bool [rows, length - 1];
            the language-model head runs on these only.
        bfloat16: Run matrix products in bfloat16.
        never: Ids that the sampler never draws; left out here too, so that both sides mean
            the same distribution.

    Returns:
        Log-probabilities and entropies, each [number selected], float32.
    """
    with autocast(bfloat16):
        # Right padding is never attended to by real tokens under a causal mask, so no mask is needed.
        hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[:, :-1][selected])
    logits = logits.float()
    if never:
        logits[:, list(never)] = NEGATIVE
    logprobs = logits.log_softmax(-1)
    chosen = logprobs.gather(1, batch.ids[:, 1:][selected][:, None])[:, 0]
    return chosen, -(logprobs.exp() * logprobs).sum(-1)


def cross_entropy(logprobs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted mean negative log-likelihood, Σ w·(−log p) / Σ w; all shapes [tokens]."""
    return -(logprobs * weights).sum() / weights.sum().clamp(min=1e-8)


def policy_gradient(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    clip: float = 0.2,
    dual_clip: float = 3.0,
) -> torch.Tensor:
    """PPO-clipped policy-gradient loss with dual clip (Ye et al. 2020).

    Args:
        logprobs: Current log-probabilities, [tokens].
        old_logprobs: Log-probabilities at sampling time, [tokens].
        advantages: Advantage of each token, [tokens].
        weights: Aggregation weight of each token, [tokens]; for the token mean, 1 / tokens.
        clip: The ratio is clipped to [1 - clip, 1 + clip].
        dual_clip: For negative advantages the objective is at least `dual_clip * A`, so
            that one very unlikely token cannot dominate a step.

    Returns:
        Scalar loss: the weighted sum over tokens.
    """
    ratio = (logprobs - old_logprobs).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
    bounded = torch.where(advantages < 0, torch.maximum(surrogate, dual_clip * advantages), surrogate)
    return -(bounded * weights).sum()
