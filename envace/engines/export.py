"""A policy's weights as a folder that another inference library can load."""

import copy
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from envace.models.adapt import merged_state

HEAD = "lm_head.weight"
"""Name of the output matrix in transformers' causal language models."""


def export_untied(model: Any, folder: Path | str) -> None:
    """Write configuration and weights with the output matrix written out.

    Where embedding and output matrix are tied, a sampler that packs the output matrix for its own
    products may reload the embedding only and go on sampling with the former output matrix.

    Args:
        model: A transformers causal LM; not changed. Adapters are merged in the copy.
        folder: An existing folder; weights of an earlier export are replaced.
    """
    folder = Path(folder)
    config = copy.deepcopy(model.config)
    config.tie_word_embeddings = False
    config.architectures = [type(model).__name__]
    config.dtype = model.dtype
    config.save_pretrained(folder)
    state = {name: weight.detach().cpu().contiguous() for name, weight in merged_state(model).items()}
    state[HEAD] = model.get_output_embeddings().weight.detach().cpu().clone()
    partial = folder / ".model.safetensors.tmp"
    save_file(state, partial, metadata={"format": "pt"})
    partial.replace(folder / "model.safetensors")
