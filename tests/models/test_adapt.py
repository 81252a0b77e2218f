"""Adapters: they alone learn, and merged they are an ordinary model; checkpointing changes no gradient."""

from pathlib import Path
from typing import Any

import pytest
import torch

from envace.models.adapt import merge, prepare
from envace.models.build import load, save
from envace.params import LoraParams, ScaleParams

LORA = LoraParams(rank=4, alpha=8, targets=("q_proj", "v_proj", "down_proj"))


def scale(lora: LoraParams | None = None, checkpointing: bool = False) -> ScaleParams:
    return ScaleParams(
        device="cpu",
        dtype="float32",
        gradient_checkpointing=checkpointing,
        lora=lora,
        shard=False,
        launch=None,
        engine="hf",
        engine_options={},
    )


def learn(model: Any, ids: torch.Tensor, steps: int = 3) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(steps):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture
def ids(tiny: Any) -> torch.Tensor:
    return torch.randint(7, tiny.vocabulary, (2, 24), generator=torch.Generator().manual_seed(0))


def logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits


def test_new_adapters_change_nothing_and_then_they_alone_learn(tiny: Any, ids: torch.Tensor) -> None:
    model = prepare(tiny.fresh(), scale(LORA), seed=0)
    assert torch.equal(logits(model, ids), logits(tiny.model, ids))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    learn(model, ids)
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in before if ".lora_" in name}
    assert len(changed) == 2 * 3 * tiny.model.config.num_hidden_layers


def test_a_merged_save_is_an_ordinary_model_with_the_same_logits(
    tiny: Any, ids: torch.Tensor, tmp_path: Path
) -> None:
    model = prepare(tiny.fresh(), scale(LORA), seed=0)
    learn(model, ids)
    learned = logits(model, ids)
    save(model, tiny.folder, tmp_path)
    loaded = load(tmp_path)
    assert loaded.state_dict().keys() == tiny.model.state_dict().keys()
    torch.testing.assert_close(logits(loaded, ids), learned, atol=1e-4, rtol=1e-4)
    assert float((learned - logits(tiny.model, ids)).abs().max()) > 0.1
    assert torch.equal(logits(model, ids), learned)  # saving does not merge the policy in training


def test_merging_by_hand() -> None:
    state = {
        "a.q.base_layer.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "a.q.base_layer.bias": torch.tensor([7.0, 8.0]),
        "a.q.lora_A.default.weight": torch.tensor([[1.0, -1.0]]),
        "a.q.lora_B.default.weight": torch.tensor([[2.0], [0.5]]),
        "a.norm.weight": torch.tensor([5.0]),
    }
    merged = merge(state, scaling=2.0)
    assert {name: tensor.tolist() for name, tensor in merged.items()} == {
        "a.q.weight": [[5.0, -2.0], [4.0, 3.0]],
        "a.q.bias": [7.0, 8.0],
        "a.norm.weight": [5.0],
    }


def test_adapters_of_a_bfloat16_policy_are_float32(tiny: Any, ids: torch.Tensor) -> None:
    model = prepare(tiny.fresh().to(torch.bfloat16), scale(LORA), seed=0)
    kinds = {(".lora_" in name, parameter.dtype) for name, parameter in model.named_parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    learn(model, ids, steps=1)


def test_equal_seeds_give_equal_adapters(tiny: Any) -> None:
    first, second, other = (prepare(tiny.fresh(), scale(LORA), seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("lora", [None, LORA])
def test_checkpointing_recomputes_and_changes_no_gradient(
    tiny: Any, ids: torch.Tensor, lora: LoraParams | None
) -> None:
    gradients = []
    for checkpointing in (False, True):
        model = prepare(tiny.fresh(), scale(lora, checkpointing), seed=0)
        runs: list[int] = []
        model.model.layers[0].mlp.register_forward_pre_hook(lambda *_, runs=runs: runs.append(1))
        model(input_ids=ids, labels=ids).loss.backward()
        assert len(runs) == (2 if checkpointing else 1)
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    plain, recomputed = gradients
    assert plain.keys() == recomputed.keys() and len(plain) > 5
    for name, gradient in plain.items():
        torch.testing.assert_close(recomputed[name], gradient, atol=1e-7, rtol=1e-5)
