"""The growing cache holds what the library's cache holds, at every length."""

from typing import Any

import torch
from transformers import DynamicCache

from envace.engines.cache import BLOCK, growing_cache


def states(generator: torch.Generator, rows: int, new: int) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (rows, 2, new, 8)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def test_growing_equals_dynamic_over_blocks_and_row_changes(tiny: Any) -> None:
    ours, theirs = growing_cache(tiny.model.config), DynamicCache(config=tiny.model.config)
    generator = torch.Generator().manual_seed(0)
    rows = 3

    def append(new: int) -> None:
        for layer in range(2):
            k, v = states(generator, rows, new)
            mine, reference = ours.update(k, v, layer), theirs.update(k, v, layer)
            assert torch.equal(mine[0], reference[0]) and torch.equal(mine[1], reference[1])
        assert ours.get_seq_length() == theirs.get_seq_length()

    append(5)
    for cache in (ours, theirs):
        cache.batch_repeat_interleave(2)
    rows = 6
    for _ in range(BLOCK + 3):  # one token at a time, over a block boundary
        append(1)
    for cache in (ours, theirs):
        cache.batch_select_indices(torch.tensor([5, 0, 2]))
    rows = 3
    append(1)
    append(2 * BLOCK)  # more than one block at once
    for cache in (ours, theirs):
        cache.batch_select_indices(torch.tensor([1]))
    rows = 1
    append(1)
