"""The sampler's copy is the same policy, with its output matrix written out."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from envace.engines.export import export_untied
from envace.models.adapt import add_adapters
from envace.params import LoraParams


def test_the_copy_computes_the_same_and_the_policy_stays_tied(tiny: Any, tmp_path: Path) -> None:
    model = tiny.fresh()
    export_untied(model, tmp_path)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 1:] *= 1.1
    export_untied(model, tmp_path)  # replaces the former weights
    assert torch.equal(load_file(tmp_path / "model.safetensors")["lm_head.weight"], model.lm_head.weight)
    copy = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert not copy.config.tie_word_embeddings
    assert copy.lm_head.weight.data_ptr() != copy.model.embed_tokens.weight.data_ptr()
    ids = torch.tensor([[1, 30, 31, 32]])
    with torch.no_grad():
        torch.testing.assert_close(copy(input_ids=ids).logits, model(input_ids=ids).logits)
    assert model.config.tie_word_embeddings
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert sorted(path.name for path in tmp_path.glob("*.safetensors*")) == ["model.safetensors"]


def test_adapters_are_merged_in_the_copy(tiny: Any, tmp_path: Path) -> None:
    model = tiny.fresh()
    add_adapters(model, LoraParams(rank=2, alpha=4, targets=("q_proj", "down_proj")), seed=0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, 1)
    export_untied(model, tmp_path)
    copy = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.tensor([[1, 30, 31, 32]])
    with torch.no_grad():
        wanted, plain = model(input_ids=ids).logits, tiny.model(input_ids=ids).logits
        torch.testing.assert_close(copy(input_ids=ids).logits, wanted)
    assert (wanted - plain).abs().max() > 0.1
