"""Grouped-query attention without repeating keys: the CPU's hot path in both directions.

Transformers' own `eager` function copies keys and values once per query head of a group,
which at one decoded token a row costs more than the products. Here the query heads of a group
are rows of one product instead. Fused attention takes over for long queries, where the matrix
of scores would not fit the processor's cache; below that it is slower on a CPU.
"""

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

NAME = "grouped"
"""Value of `attn_implementation` once this module is imported."""
LONG = 512
"""Queries from which fused attention is faster."""


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of `heads` query heads over `groups` key-value heads.

    Args:
        module: The attention layer; not used.
        query: [rows, heads, length, dimension]; heads of one group lie together.
        key: [rows, groups, keys, dimension].
        value: [rows, groups, keys, dimension].
        attention_mask: Added to the scores, [rows or 1, 1, length, keys].
        scaling: Factor on the scores.

    Returns:
        [rows, length, heads, dimension], and no weights.
    """
    rows, heads, length, dimension = query.shape
    if length >= LONG:
        mask = None if attention_mask is None else attention_mask.to(query.dtype)
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True
        )
        return out.transpose(1, 2).contiguous(), None
    folded = (query * scaling).reshape(rows, key.shape[1], -1, dimension)
    scores = (folded @ key.transpose(2, 3)).view(rows, heads, length, -1)
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    out = weights.view(rows, key.shape[1], -1, weights.shape[-1]) @ value
    return out.view(rows, heads, length, dimension).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, grouped_attention)
AttentionMaskInterface.register(NAME, eager_mask)
