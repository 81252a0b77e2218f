"""Grouped attention equals the library's explicit attention, in both directions and for long queries."""

from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from envace.models import attention


def model(implementation: str) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=1024,
    )  # fmt: skip
    built = Qwen3ForCausalLM(config)
    built.set_attn_implementation(implementation)
    return built


@pytest.mark.parametrize("length", [1, 7, attention.LONG + 3])
def test_equals_eager_with_left_padding(length: int) -> None:
    ids = torch.randint(1, 64, (3, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, : length // 2] = 0
    ours, theirs = (
        model(name)(input_ids=ids, attention_mask=mask).logits for name in (attention.NAME, "eager")
    )
    real = mask.bool()
    torch.testing.assert_close(ours[real], theirs[real], atol=2e-5, rtol=1e-4)


def test_equal_gradients() -> None:
    ids = torch.randint(1, 64, (3, 9), generator=torch.Generator().manual_seed(1))
    gradients = []
    for name in (attention.NAME, "eager"):
        built = model(name)
        built(input_ids=ids, labels=ids).loss.backward()
        gradients.append([p.grad for p in built.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-3)
