"""Where tokens come from: prompts of token ids in, sampled tokens and log-probabilities out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Sampling:
    """How to sample."""

    temperature: float = 1.0
    """0 decodes greedily."""
    max_new_tokens: int = 160
    """Tokens at most per completion."""
    stop_ids: frozenset[int] = frozenset()
    """Tokens that end a completion; the stop token is part of it."""
    forbidden_ids: frozenset[int] = frozenset()
    """Tokens that are never sampled."""
    seed: int = 0
    """Same seed, prompts and weights: same tokens."""


@dataclass(frozen=True)
class Completion:
    """Sampled tokens of one prompt."""

    ids: list[int]
    """Sampled token ids, the stop token included."""
    logprobs: list[float]
    """Log-probability of each under the distribution sampled from (T = 1 where greedy)."""
    stopped: bool
    """True when a stop token ended it, False when the limit did."""


class Engine(Protocol):
    """A source of completions; knows nothing of chat or roles."""

    generated_tokens: int
    """Tokens sampled since the start: the cost of rehearsal is read from here."""

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1
    ) -> list[list[Completion]]:
        """Sample `n` completions for each prompt, in the order given."""
        ...
