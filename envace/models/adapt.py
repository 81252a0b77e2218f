"""Make a loaded policy trainable within the memory there is: adapters, checkpointing."""

from collections.abc import Mapping
from typing import Any

import torch

from envace.params import LoraParams, ScaleParams

ADAPTER = "default"
"""Name that peft gives the only adapter."""


def prepare(model: Any, scale: ScaleParams, seed: int) -> Any:
    """Prepare for training, in place.

    Args:
        model: A transformers causal LM.
        scale: What to do to it.
        seed: Seed of the adapters' random halves; equal on all ranks.

    Returns:
        The same model, in training mode. Its class and module names stay, so engines and losses
        need not know of adapters.
    """
    if scale.lora is not None:
        add_adapters(model, scale.lora, seed)
    if scale.gradient_checkpointing:
        model.activation_checkpointing_enable()
    return model.train()


def add_adapters(model: Any, lora: LoraParams, seed: int) -> None:
    """Freeze all weights and put trainable low-rank adapters, which change nothing yet, beside some.

    Adapters are float32 whatever the weights are: their updates are small.
    """
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=list(lora.targets))
    torch.manual_seed(seed)
    inject_adapter_in_model(config, model, ADAPTER)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def merged_state(model: Any, state: Mapping[str, torch.Tensor] | None = None) -> dict[str, torch.Tensor]:
    """The policy's weights as a model without adapters has them: W + alpha/rank · B·A.

    Args:
        model: The policy, with adapters or without.
        state: Its whole weights where `model` holds a shard; by default, its own.
    """
    state = model.state_dict() if state is None else state
    config = getattr(model, "peft_config", {}).get(ADAPTER)
    return dict(state) if config is None else merge(state, config.lora_alpha / config.r)


def merge(state: Mapping[str, torch.Tensor], scaling: float) -> dict[str, torch.Tensor]:
    """Merge adapters by name; every other tensor is passed on.

    Args:
        state: Weights under peft's names: `X.base_layer.weight`, `X.lora_A.default.weight`
            [rank, in], `X.lora_B.default.weight` [out, rank].
        scaling: alpha / rank.

    Returns:
        Weights under the names they had before, `X.weight`, in the type they had.
    """
    merged: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        layer, found, rest = name.partition(".base_layer.")
        if ".lora_" in name:
            continue
        if found and rest == "weight":
            down, up = (state[f"{layer}.lora_{half}.{ADAPTER}.weight"].float() for half in "AB")
            tensor = (tensor.float() + scaling * (up @ down)).to(tensor.dtype)
        merged[f"{layer}.{rest}" if found else name] = tensor
    return merged
