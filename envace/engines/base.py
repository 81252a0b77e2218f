"""Where tokens come from: prompts of token ids in, sampled tokens and log-probabilities out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


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
    top_p: float = 1.0
    """Sample from the fewest likeliest tokens whose probabilities reach this sum; 1 keeps all."""
    continued: bool = False
    """A later prompt will extend these completions: an engine that can keep their states does."""
    alternatives: int = 0
    """How many of the likeliest tokens to report at each place; only a `BatchingEngine` does."""


@dataclass(frozen=True)
class Sampled:
    """One token."""

    token: int
    """Its id."""
    logprob: float
    """Its log-probability, as in `Completion.logprobs`."""
    alternatives: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens at its place with their log-probabilities, likeliest first."""


Listener = Callable[[int, Sampled], bool]
"""Told (number of the completion, token) as each is sampled; False ends that completion there.

Completions are numbered over all prompts: `i * n + k` is sample `k` of prompt `i`.
"""


@dataclass(frozen=True)
class Completion:
    """Sampled tokens of one prompt."""

    ids: list[int]
    """Sampled token ids, the stop token included."""
    logprobs: list[float]
    """Log-probability of each under the distribution sampled from.

    That is after forbidden ids, temperature and top-p, renormalized. Greedy decoding reports the
    distribution at T = 1 without top-p.
    """
    stopped: bool
    """True when a stop token ended it, False when the limit or a listener did."""
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    """Likeliest tokens at each place; empty when they were not asked for."""


@dataclass(frozen=True)
class Job:
    """One request among others: what `Engine.generate` takes, and who listens."""

    prompts: Sequence[Sequence[int]]
    """Prompts of token ids."""
    sampling: Sampling
    """How to sample."""
    n: int = 1
    """Completions for each prompt."""
    listener: Listener | None = None
    """Reads along and may end completions early."""


class Engine(Protocol):
    """A source of completions; knows nothing of chat or roles."""

    generated_tokens: int
    """Tokens sampled since the start: the cost of rehearsal is read from here."""

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1
    ) -> list[list[Completion]]:
        """Sample `n` completions for each prompt, in the order given."""
        ...


@runtime_checkable
class BatchingEngine(Engine, Protocol):
    """An engine that decodes different requests together."""

    def run(self, jobs: Sequence[Job]) -> list[list[list[Completion]]]:
        """Sample for every job, all in one batch; each gets what it would have got alone."""
        ...


class TrainableEngine(Engine, Protocol):
    """An engine that samples from a policy under training."""

    def sync(self, model: Any) -> float:
        """Take over the weights of `model`; call it after every change of them.

        Returns:
            Mean absolute log-probability gap between trainer and sampler on a probe, in nats; 0
            where both are the same object.
        """
        ...
