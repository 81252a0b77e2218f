"""One way through a causal LM in training: the head runs on wanted places only."""

from typing import Any

import torch


def selected_logits(
    model: Any,
    ids: torch.Tensor,
    places: torch.Tensor,
    positions: torch.Tensor | None = None,
    attention: torch.Tensor | None = None,
) -> torch.Tensor:
    """Logits of what follows at selected places.

    The call goes through the model's own `forward`, not through its parts: what is hung around
    that call, such as FSDP's gathering of embedding and head, must run.

    Args:
        model: A transformers causal LM.
        ids: Token ids, [rows, length], padded on the right; real tokens never attend to padding
            under a causal mask, so no mask is needed.
        places: Which places, [tokens], flattened: row · length + place in the row.
        positions: Position of each token, [rows, length]; None counts from the left.
        attention: Added to attention scores, [rows, 1, length, length]; None is causal.

    Returns:
        [tokens, padded vocabulary], in the model's compute type.
    """
    head = model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, inputs: (inputs[0].flatten(0, 1)[places],))
    try:
        return model(input_ids=ids, position_ids=positions, attention_mask=attention, use_cache=False).logits
    finally:
        handle.remove()
