"""Structured initialization: start a small Qwen3 with induction heads instead of waiting for them.

Copying is most of what tool use and tool rehearsal need, and a transformer learns it late
and suddenly: it must first form previous-token heads, then induction heads that use them
(Olsson et al. 2022). Written into the first two layers, with everything else random, the
model copies within 50 steps instead of after many hundreds.

Layer 0: every head attends to a fixed offset. A constant embedding channel feeds keys and
queries, and the query is the key's rotation by that offset, so their product under RoPE
peaks there. Its output writes "what stood d positions earlier" into the residual stream.
Layer 1: queries hold the current token, keys hold the token written by head 0 of layer 0
(the previous one), so attention lands behind an earlier occurrence; values copy what
stands there.
"""

from typing import Any

import torch

OFFSETS = (1, 2, 1, 3)
"""Positions back that the heads of layer 0 look at, in turn."""
FAST = 4
"""RoPE pairs that carry position: the fastest ones, where one step turns visibly."""
SLOW = 6
"""First RoPE pair that carries content: slow enough to match at any distance."""


def initialize(model: Any, seed: int) -> None:
    """Write previous-token and induction heads into layers 0 and 1, in place.

    Args:
        model: A `Qwen3ForCausalLM` with at least two layers and head dimension over 16.
        seed: Seed of the random projections.
    """
    config = model.config
    generator = torch.Generator().manual_seed(seed)
    width, dim = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    half, fast = dim // 2, torch.arange(FAST)
    frequencies = config.rope_parameters["rope_theta"] ** (-2.0 * fast / dim)

    def projection() -> torch.Tensor:
        """Random orthonormal columns, [width, dim], that ignore the constant channel 0."""
        columns = torch.linalg.qr(torch.randn(width, dim, generator=generator))[0]
        columns[0] = 0
        return columns

    with torch.no_grad():
        embedding = model.model.embed_tokens.weight
        embedding.normal_(0, 0.08, generator=generator)
        embedding[:, 0] = 0.8  # the constant channel

        reads, writes = [], []
        for head in range(kv_heads):
            first.k_proj.weight[head * dim + fast, 0] = 0.3
            read = projection().T
            first.v_proj.weight[head * dim : (head + 1) * dim] = read
            reads.append(read)
        for head in range(heads):
            angle = frequencies * OFFSETS[head % len(OFFSETS)]
            first.q_proj.weight[head * dim + fast, 0] = 0.3 * torch.cos(angle)
            first.q_proj.weight[head * dim + half + fast, 0] = -0.3 * torch.sin(angle)
            write = projection()
            first.o_proj.weight[:, head * dim : (head + 1) * dim] = write * (0.25 if head == 0 else 0.1)
            writes.append(write)
        first.q_norm.weight.fill_(6.0)  # sharp attention

        content = torch.cat([torch.arange(SLOW, half), torch.arange(half + SLOW, dim)])
        for head in range(heads):
            second.q_proj.weight[head * dim + content] = 2 * reads[0][: len(content)]
        for head in range(kv_heads):
            second.k_proj.weight[head * dim + content] = 2 * writes[0].T[: len(content)]
        second.q_norm.weight.fill_(2.5)
        groups = heads // kv_heads
        for head in range(kv_heads):
            copy = projection().T
            second.v_proj.weight[head * dim : (head + 1) * dim] = copy
            for query in range(head * groups, (head + 1) * groups):
                second.o_proj.weight[:, query * dim : (query + 1) * dim] = 0.3 * copy.T
