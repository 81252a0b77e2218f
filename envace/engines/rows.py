"""Rows of a batch that belong to different requests, each with its own sampling and random numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import torch

from envace.engines.base import Completion, Job, Sampled, Sampling
from envace.engines.distribution import chances, draw, log_distribution


@dataclass(eq=False)
class Part:
    """The prompts of one job that are decoded at once."""

    job: Job
    """The job."""
    number: int
    """Its place among the jobs."""
    chosen: list[int]
    """Indices of the prompts."""
    generator: torch.Generator
    """Random numbers of the job, so that its company makes no difference."""

    @property
    def size(self) -> int:
        """Rows that it takes."""
        return len(self.chosen) * self.job.n

    @cached_property
    def kind(self) -> tuple[float, float, list[int]]:
        """Rows of one kind share a distribution."""
        sampling = self.job.sampling
        return sampling.temperature, sampling.top_p, sorted(sampling.forbidden_ids)


@dataclass(eq=False)
class Row:
    """One completion under way."""

    part: Part
    """Where it belongs."""
    number: int
    """Its number within the job."""
    prompt: list[int]
    """Tokens in front."""
    ids: list[int] = field(default_factory=list)
    """Tokens so far."""
    logprobs: list[float] = field(default_factory=list)
    """Their log-probabilities."""
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    """Likeliest tokens at each place, where they were asked for."""
    stopped: bool = False
    """A stop token came."""

    def add(self, token: int, logprob: float, distribution: torch.Tensor) -> bool:
        """Append a token sampled from `distribution` [vocabulary]; True when the row goes on."""
        job, sampled = self.part.job, Sampled(token, logprob)
        if job.sampling.alternatives:
            values, ids = distribution.topk(job.sampling.alternatives)
            sampled = Sampled(token, logprob, tuple(zip(ids.tolist(), values.tolist(), strict=True)))
            self.alternatives.append(sampled.alternatives)
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.stopped = token in job.sampling.stop_ids
        heard = job.listener is None or job.listener(self.number, sampled)
        return heard and not self.stopped and len(self.ids) < job.sampling.max_new_tokens

    def completion(self) -> Completion:
        """What was sampled."""
        return Completion(self.ids, self.logprobs, self.stopped, self.alternatives)


def batches(jobs: Sequence[Job], most: int) -> Iterator[list[Part]]:
    """Batches of at most `most` rows; the samples of one prompt stay together, even if they are more."""
    parts = []
    for number, job in enumerate(jobs):
        generator = torch.Generator().manual_seed(job.sampling.seed)
        # Similar lengths together: less left padding, same tokens for the same seed.
        order = sorted(range(len(job.prompts)), key=[len(prompt) for prompt in job.prompts].__getitem__)
        size = max(1, most // job.n)
        parts += [
            Part(job, number, order[start : start + size], generator) for start in range(0, len(order), size)
        ]
    batch: list[Part] = []
    # One kind after the other; the sort is stable, so the parts of a job keep their order.
    for part in sorted(parts, key=lambda part: part.kind):
        if batch and sum(other.size for other in batch) + part.size > most:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def rows_of(batch: Sequence[Part]) -> list[Row]:
    """The rows of a batch: for every prompt in turn, its samples."""
    return [
        Row(part, index * part.job.n + sample, list(part.job.prompts[index]))
        for part in batch
        for index in part.chosen
        for sample in range(part.job.n)
    ]


@dataclass(frozen=True)
class Kin:
    """Rows in a row that share a distribution."""

    sampling: Sampling
    """Theirs, as far as the distribution goes."""
    never: torch.Tensor
    """Ids that are never sampled, int64 [ids]."""
    owners: list[tuple[torch.Generator, int]]
    """Whose random numbers are drawn, and for how many rows."""
    size: int
    """How many they are."""


def kin_of(rows: Sequence[Row], beyond: Sequence[int], device: torch.device) -> list[Kin]:
    """Rows under way by their distribution, in order; `beyond` are ids that pad the embedding matrix."""
    kin = []
    for _, group in groupby(rows, key=lambda row: row.part.kind):
        alike = list(group)
        sampling = alike[0].part.job.sampling
        never = torch.tensor([*sampling.forbidden_ids, *beyond], dtype=torch.long, device=device)
        owners = [(part.generator, len(list(own))) for part, own in groupby(alike, key=lambda row: row.part)]
        kin.append(Kin(sampling, never, owners, len(alike)))
    return kin


def sample(kin: Sequence[Kin], logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The next token of every row, int64 [rows], and the distributions they come from, [rows, vocabulary].

    Args:
        kin: All rows, in order.
        logits: [rows, padded vocabulary].
    """
    tokens, distributions, start = [], [], 0
    for group in kin:
        distribution = log_distribution(logits[start : start + group.size], group.sampling, group.never)
        start += group.size
        if group.sampling.temperature == 0:
            tokens.append(distribution.argmax(-1))
        else:
            chance = torch.cat([chances(count, generator) for generator, count in group.owners])
            tokens.append(draw(distribution, chance))
        distributions.append(distribution)
    return torch.cat(tokens), torch.cat(distributions)
