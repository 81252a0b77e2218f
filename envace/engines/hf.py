"""The in-process engine over a transformers model: left-padded batches, finished rows leave."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from envace.engines.base import Completion, Sampling
from envace.engines.cache import growing_cache

NEGATIVE = -1e9


class HFEngine:
    """Batched sampling with a kept cache.

    A prompt is prefilled once for all its samples; a row leaves the batch as soon as it
    stops, so a long straggler does not cost a whole batch.
    """

    def __init__(self, model: Any, vocabulary: int, max_rows: int = 512) -> None:
        """Wrap a causal language model.

        Args:
            model: A transformers causal LM.
            vocabulary: Number of real token ids; ids above are padding of the embedding
                matrix and are never sampled.
            max_rows: Rows decoded at once; longer requests are served in slices. The samples
                of one prompt share its prefill and stay together, even if they are more.
        """
        self.model = model
        self.vocabulary = vocabulary
        self.max_rows = max_rows
        self.generated_tokens = 0

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1
    ) -> list[list[Completion]]:
        """Sample `n` completions for each prompt; see `Engine`."""
        training = self.model.training
        self.model.eval()
        generator = torch.Generator().manual_seed(sampling.seed)
        results: dict[int, list[Completion]] = {}
        # Similar lengths together: less left padding, same tokens for the same seed.
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        for chosen in _slices(order, max(1, self.max_rows // n)):
            completions = self._decode([prompts[i] for i in chosen], sampling, n, generator)
            for position, index in enumerate(chosen):
                results[index] = completions[position * n : (position + 1) * n]
        self.model.train(training)
        return [results[index] for index in range(len(prompts))]

    def _decode(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int, generator: torch.Generator
    ) -> list[Completion]:
        width = max(len(prompt) for prompt in prompts)
        ids = torch.zeros(len(prompts), width, dtype=torch.long)
        mask = torch.zeros(len(prompts), width + sampling.max_new_tokens, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        positions = (mask[:, :width].cumsum(1) - 1).clamp(min=0)
        cache = growing_cache(self.model.config)
        out = self.model(
            input_ids=ids, attention_mask=mask[:, :width], position_ids=positions, cache=cache,
            use_cache=True, logits_to_keep=1,
        )  # fmt: skip
        logits = out.logits[:, -1].float()
        if n > 1:
            cache.batch_repeat_interleave(n)
            logits, mask = logits.repeat_interleave(n, 0), mask.repeat_interleave(n, 0)
        position = mask[:, :width].sum(1)
        rows = list(range(len(prompts) * n))
        sampled: list[list[int]] = [[] for _ in rows]
        logprobs: list[list[float]] = [[] for _ in rows]
        stopped = [False] * len(rows)
        for step in range(sampling.max_new_tokens):
            tokens, values = self._sample(logits, sampling, generator)
            self.generated_tokens += len(rows)
            keep = []
            for local, (row, token, value) in enumerate(
                zip(rows, tokens.tolist(), values.tolist(), strict=True)
            ):
                sampled[row].append(token)
                logprobs[row].append(value)
                if token in sampling.stop_ids:
                    stopped[row] = True
                else:
                    keep.append(local)
            if not keep or step + 1 == sampling.max_new_tokens:
                break
            if len(keep) < len(rows):
                index = torch.tensor(keep)
                cache.batch_select_indices(index)
                rows = [rows[local] for local in keep]
                tokens, mask, position = tokens[index], mask[index], position[index]
            out = self.model(
                input_ids=tokens[:, None], attention_mask=mask[:, : width + step + 1],
                position_ids=position[:, None], cache=cache, use_cache=True,
            )  # fmt: skip
            logits = out.logits[:, -1].float()
            position = position + 1
        return [Completion(*row) for row in zip(sampled, logprobs, stopped, strict=True)]

    def _sample(
        self, logits: torch.Tensor, sampling: Sampling, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw one token a row from logits of shape [rows, padded vocabulary]."""
        logits[:, self.vocabulary :] = NEGATIVE
        logits[:, list(sampling.forbidden_ids)] = NEGATIVE
        scaled = logits / sampling.temperature if sampling.temperature > 0 else logits
        logprobs = scaled.log_softmax(-1)
        tokens = _draw(logprobs, generator) if sampling.temperature > 0 else logits.argmax(-1)
        return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def _draw(logprobs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One token a row by inversion: one random number a row, not one for each token id."""
    cumulative = logprobs.double().exp().cumsum(-1)
    chance = torch.rand(len(logprobs), 1, generator=generator, dtype=torch.float32)
    # A float32 chance is at most 1 - 2^-24, so its product stays below the total; `right`
    # skips ids of no probability even at chance 0.
    return torch.searchsorted(cumulative, chance.double() * cumulative[:, -1:], right=True)[:, 0]


def _slices(items: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
