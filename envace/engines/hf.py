"""The in-process engine over a transformers model: left-padded batches, finished rows leave.

States of completions that will be continued are kept, so that a prompt which extends them, such as
the next turn or the same turn in the other role, is prefilled with its new tokens only.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from transformers import DynamicCache

from envace.engines.base import Completion, Job, Sampling
from envace.engines.cache import growing_cache, row_states
from envace.engines.prefix import PrefixStore
from envace.engines.rows import Part, Row, batches, kin_of, rows_of, sample
from envace.errors import EnvaceError

KEPT_TOKENS = 131_072
"""Tokens whose states are kept: 256 roll-outs of 512 tokens."""


@dataclass
class _Batch:
    """Rows under way; a row that stops leaves."""

    cache: DynamicCache
    """States of every row; `mask` says which positions are real."""
    mask: torch.Tensor
    """1 at real positions, int64 [rows, prefilled width + new tokens]."""
    width: int
    """Positions in the cache after the prefill, padding included."""
    position: torch.Tensor
    """Position of the next token, int64 [rows]."""
    logits: torch.Tensor
    """Logits of the next token, [rows, padded vocabulary]."""

    def repeat(self, counts: torch.Tensor) -> None:
        """Repeat every row that often, for the samples of its prompt."""
        rows = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        self.keep(rows)
        self.logits = self.logits[rows]

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all other rows; a row may be kept several times. The logits stay."""
        self.cache.batch_select_indices(rows)
        self.mask, self.position = self.mask[rows], self.position[rows]


class HFEngine:
    """Batched sampling with a kept cache.

    A prompt is prefilled once for all its samples; a row leaves the batch as soon as it
    stops, so a long straggler does not cost a whole batch.
    """

    def __init__(
        self, model: Any, vocabulary: int, max_rows: int = 512, kept_tokens: int = KEPT_TOKENS
    ) -> None:
        """Wrap a causal language model.

        Args:
            model: A transformers causal LM, on any device.
            vocabulary: Number of real token ids; ids above are padding of the embedding
                matrix and are never sampled.
            max_rows: Rows decoded at once; longer requests are served in slices. The samples
                of one prompt share its prefill and stay together, even if they are more.
            kept_tokens: Tokens at most whose states are kept for `Sampling.continued`; each takes
                2 x layers x key-value heads x head dimension numbers.
        """
        self.model = model
        self.vocabulary = vocabulary
        self.max_rows = max_rows
        self.store = PrefixStore(kept_tokens)
        self.generated_tokens = 0
        self.prefilled_tokens = 0
        """Prompt tokens fed to the model."""
        self.recomputed_tokens = 0
        """Those of them that were computed before, with the same weights, in the same sequence."""
        self._versions: list[tuple[int, int]] = []
        # Transformers renamed the argument in 5.20.
        accepted = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1
    ) -> list[list[Completion]]:
        """Sample `n` completions for each prompt; see `Engine`."""
        return self.run([Job(prompts, sampling, n)])[0]

    @torch.no_grad()
    def run(self, jobs: Sequence[Job]) -> list[list[list[Completion]]]:
        """Sample for every job, together; see `BatchingEngine`."""
        self._forget_former_weights()
        training = self.model.training
        self.model.eval()
        done: dict[tuple[int, int], Completion] = {}
        for batch in batches(jobs, self.max_rows):
            rows = rows_of(batch)
            self._decode(batch, rows)
            done |= {(row.part.number, row.number): row.completion() for row in rows}
        self.model.train(training)
        return [
            [[done[number, i * job.n + k] for k in range(job.n)] for i in range(len(job.prompts))]
            for number, job in enumerate(jobs)
        ]

    def sync(self, model: Any) -> float:
        """Forget the states of former weights; see `TrainableEngine`.

        Every `generate` looks for changed weights itself, but sees only changes that PyTorch
        counts: not those made through `.data` or in inference mode.
        """
        if model is not self.model:
            raise EnvaceError("this engine samples from another model", "make a new engine")
        self.store.clear()
        return 0.0

    def _forget_former_weights(self) -> None:
        versions = [(id(weight), weight._version) for weight in self.model.parameters()]
        if versions != self._versions:
            self.store.clear()
            self._versions = versions

    def _decode(self, parts: Sequence[Part], rows: list[Row]) -> None:
        """Fill the rows, which are those of `parts`."""
        device = self.model.device
        beyond = range(self.vocabulary, self.model.config.vocab_size)
        prompts = [list(part.job.prompts[index]) for part in parts for index in part.chosen]
        batch = self._prefill(prompts, max(part.job.sampling.max_new_tokens for part in parts))
        if len(rows) > len(prompts):
            batch.repeat(torch.tensor([part.job.n for part in parts for _ in part.chosen], device=device))
        kin = kin_of(rows, beyond, device)
        for step in count():
            tokens, distribution = sample(kin, batch.logits)
            values = distribution.gather(1, tokens[:, None])[:, 0]
            self.generated_tokens += len(rows)
            keep: list[int] = []
            for local, (row, token, value) in enumerate(
                zip(rows, tokens.tolist(), values.tolist(), strict=True)
            ):
                if row.add(token, value, distribution[local]):
                    keep.append(local)
                else:
                    self._remember(row, batch, local, batch.width + step)
            if not keep:
                return
            if len(keep) < len(rows):
                index = torch.tensor(keep, device=device)
                batch.keep(index)
                rows = [rows[local] for local in keep]
                kin = kin_of(rows, beyond, device)
                tokens = tokens[index]
            out = self._forward(
                batch.cache, input_ids=tokens[:, None],
                attention_mask=batch.mask[:, : batch.width + step + 1],
                position_ids=batch.position[:, None],
            )  # fmt: skip
            batch.logits = out.logits[:, -1]
            batch.position = batch.position + 1

    def _prefill(self, prompts: list[list[int]], new: int) -> _Batch:
        """Feed what the store lacks of every prompt.

        A row lies in the cache as [padding, kept states, padding, new tokens]; positions count
        real tokens only.
        """
        # The last token is always fed: its logits are wanted, not its states.
        found = [self.store.find(prompt, len(prompt) - 1) for prompt in prompts]
        fed = [prompt[item.length :] for prompt, item in zip(prompts, found, strict=True)]
        kept, width = max(item.length for item in found), max(map(len, fed))
        ids = torch.zeros(len(prompts), width, dtype=torch.long)
        mask = torch.zeros(len(prompts), kept + width + new, dtype=torch.long)
        for row, (item, tokens) in enumerate(zip(found, fed, strict=True)):
            mask[row, kept - item.length : kept] = 1
            ids[row, width - len(tokens) :] = torch.tensor(tokens)
            mask[row, kept + width - len(tokens) :] = 1
            self.prefilled_tokens += len(tokens)
            self.recomputed_tokens += item.known - item.length
        width += kept
        positions = (mask[:, :width].cumsum(1) - 1).clamp(min=0)[:, kept:]
        device = self.model.device
        mask = mask.to(device)
        cache = growing_cache(self.model.config, [item.states for item in found], kept)
        out = self._forward(
            cache, input_ids=ids.to(device), attention_mask=mask[:, :width],
            position_ids=positions.to(device), logits_to_keep=1,
        )  # fmt: skip
        return _Batch(cache, mask, width, mask[:, :width].sum(1), out.logits[:, -1])

    def _remember(self, row: Row, batch: _Batch, local: int, filled: int) -> None:
        """Put a finished row into the store, with its states where it will be continued."""
        # The last token was sampled but not fed, so it has no states yet.
        ids = row.prompt + row.ids[:-1]
        if not row.part.job.sampling.continued:
            self.store.put(ids, None)
            return
        slots = batch.mask[local, :filled].nonzero()[:, 0]
        self.store.put(ids, lambda start: row_states(batch.cache, local, slots[start:]))

    def _forward(self, cache: DynamicCache, **inputs: Any) -> Any:
        return self.model(**inputs, **{self._cache_name: cache}, use_cache=True)
