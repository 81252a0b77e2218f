"""A key-value cache that grows in blocks instead of being copied at every token."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer

BLOCK = 64
"""Positions added at a time."""


class GrowingLayer(DynamicLayer):
    """`DynamicLayer` with spare room: appending one token writes one position.

    The parent concatenates, which copies the whole cache at every decoded token; for a
    small model on a CPU that costs more than the matrix products.
    """

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append states of shape [rows, heads, new, dimension]; returns all so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._room_k, self._room_v, self._length = key_states, value_states, 0
        start, stop = self._length, self._length + key_states.shape[-2]
        if stop > self._room_k.shape[-2] or start == 0:
            self._room_k = self._grown(self._room_k, key_states, start, stop)
            self._room_v = self._grown(self._room_v, value_states, start, stop)
        self._room_k[:, :, start:stop] = key_states
        self._room_v[:, :, start:stop] = value_states
        self._length = stop
        self.keys, self.values = self._room_k[:, :, :stop], self._room_v[:, :, :stop]
        return self.keys, self.values

    @staticmethod
    def _grown(room: torch.Tensor, states: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        rows, heads, _, dimension = states.shape
        larger = states.new_empty(rows, heads, stop + BLOCK, dimension)
        larger[:, :, :start] = room[:, :, :start]
        return larger

    def _select(self, index: torch.Tensor) -> None:
        self._room_k, self._room_v = self._room_k[index], self._room_v[index]
        self.keys = self._room_k[:, :, : self._length]
        self.values = self._room_v[:, :, : self._length]

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep the given rows."""
        self._select(indices)

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Take the rows in another order."""
        self._select(beam_idx)

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last positions; the number is negative, as in the parent."""
        self._length -= abs(tokens_to_remove)
        self._select(torch.arange(self._room_k.shape[0]))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every row."""
        self._select(torch.arange(self._room_k.shape[0]).repeat_interleave(repeats))


def growing_cache(
    config: PreTrainedConfig, rows: Sequence[Sequence[torch.Tensor]] = (), width: int = 0
) -> DynamicCache:
    """A cache for one generation.

    Args:
        config: The model's.
        rows: States that each row starts with, as `row_states` gave them, in runs along the tokens.
        width: Positions of the longest row; shorter ones are padded on the left.
    """
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer() for _ in cache.layers]
    if width:
        some = next(run for runs in rows for run in runs)
        states, heads, _, dimension = some.shape
        filled = some.new_zeros(states, len(rows), heads, width, dimension)
        for row, runs in enumerate(rows):
            start = width - sum(run.shape[2] for run in runs)
            for run in runs:
                filled[:, row, :, start : start + run.shape[2]] = run
                start += run.shape[2]
        for layer in range(len(cache.layers)):
            cache.update(filled[2 * layer], filled[2 * layer + 1], layer)
    return cache


def row_states(cache: Any, row: int, slots: torch.Tensor) -> torch.Tensor:
    """Keys and values in turn of one row at `slots`: [2 x layers, heads, tokens, dimension]."""
    return torch.stack(
        [states[row, :, slots] for layer in cache.layers for states in (layer.keys, layer.values)]
    )
