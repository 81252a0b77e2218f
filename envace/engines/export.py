"""A policy's weights as a folder that another inference library can load."""

import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from envace.models.adapt import merged_state

HEAD = "lm_head.weight"
"""Name of the output matrix in transformers' causal language models."""


def export_untied(model: Any, folder: Path | str, dtype: torch.dtype | None = None) -> None:
    """Write configuration and weights with the output matrix written out.

    Where embedding and output matrix are tied, a sampler that packs the output matrix for its own
    products may reload the embedding only and go on sampling with the former output matrix.

    Args:
        model: A transformers causal LM; not changed. Adapters are merged in the copy. Of a sharded one,
            all ranks must call this, each with a folder of its own.
        folder: An existing folder; weights of an earlier export are replaced.
        dtype: What the copy is held in; the model's own type if None.
    """
    dtype = dtype or model.dtype
    folder = Path(folder)
    config = copy.deepcopy(model.config)
    config.tie_word_embeddings = False
    # Sharding gives a model a class of its own.
    config.architectures = [type(model).__name__.removeprefix("FSDP")]
    config.dtype = dtype
    config.save_pretrained(folder)
    # Gathered one by one into main memory: on a GPU there is room for a shard only.
    whole = {name: _whole(weight).cpu() for name, weight in model.state_dict().items()}
    state = {name: weight.to(dtype).contiguous() for name, weight in merged_state(model, whole).items()}
    state[HEAD] = _whole(model.get_output_embeddings().weight.detach()).cpu().to(dtype, copy=True)
    partial = folder / ".model.safetensors.tmp"
    save_file(state, partial, metadata={"format": "pt"})
    partial.replace(folder / "model.safetensors")


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor of which each rank may hold a shard."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
