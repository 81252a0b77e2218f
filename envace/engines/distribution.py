"""The distribution that tokens are sampled from, as a function of logits."""

import torch

from envace.engines.base import Sampling

NEGATIVE = -1e9
"""Logit of an id that is never sampled."""


def log_distribution(logits: torch.Tensor, sampling: Sampling, never: torch.Tensor) -> torch.Tensor:
    """Log-probabilities after forbidden ids, temperature and top-p, renormalized.

    A trainer that wants the ratio of the sampled policy must apply the same function; leaving a
    step out shows as a gap between trainer and sampler.

    Args:
        logits: [rows, padded vocabulary]; not changed.
        sampling: Temperature and top-p; temperature 0 means T = 1 and no top-p.
        never: Ids that are never sampled, int64 [ids].

    Returns:
        Log-probabilities, float32 [rows, padded vocabulary].
    """
    logits = logits.float().index_fill(1, never, NEGATIVE)
    if sampling.temperature == 0:
        return logits.log_softmax(-1)
    logprobs = (logits / sampling.temperature).log_softmax(-1)
    return logprobs if sampling.top_p >= 1 else _nucleus(logprobs, sampling.top_p)


def chances(rows: int, generator: torch.Generator) -> torch.Tensor:
    """A random number in [0, 1) a row, float32 [rows, 1].

    They come from a generator on the CPU, so that a seed means the same on every device.
    """
    return torch.rand(rows, 1, generator=generator, dtype=torch.float32)


def draw(logprobs: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    """One token a row by inversion: one of the `chances` a row, not one for each token id."""
    cumulative = logprobs.double().exp().cumsum(-1)
    # A float32 chance is at most 1 - 2^-24, so its product stays below the total; `right`
    # skips ids of no probability even at chance 0.
    level = chance.to(logprobs.device).double() * cumulative[:, -1:]
    return torch.searchsorted(cumulative, level, right=True)[:, 0]


def _nucleus(logprobs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the fewest likeliest tokens that reach `top_p`, always at least one (Holtzman et al. 2020)."""
    ordered, ids = logprobs.sort(dim=-1, descending=True, stable=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()
    beyond = before >= top_p
    beyond[:, 0] = False
    dropped = torch.zeros_like(beyond).scatter(1, ids, beyond)
    return logprobs.masked_fill(dropped, NEGATIVE).log_softmax(-1)
