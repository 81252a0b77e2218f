"""What a pretrained folder needs beyond its weights: the markers of ChatML and Hermes tool calls.

Qwen3 has them all. SmolLM2 knows the turns of ChatML but no tool markers; as one token each they
cannot be split differently at the edge of a span, and the end of a response is one token to stop at.
"""

from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.files import read_json, write_json

MARKERS = (
    "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"
)  # fmt: skip
FAMILY = "hermes"
"""Entry `chat_family` of the tokenizer's configuration: which chat template belongs to the folder."""


def complete(folder: Path) -> None:
    """Make every marker one token and note the chat family; weights are touched only where one is missing.

    The embedding of a new marker starts as the mean of the pieces it was spelled with.

    Args:
        folder: Model folder in the transformers format.

    Raises:
        EnvaceError: It has no `tokenizer.json`.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise EnvaceError(f"{path}: no such file", "the model must come with a fast tokenizer")
    tokenizer = Tokenizer.from_file(str(path))
    missing = [marker for marker in MARKERS if tokenizer.token_to_id(marker) is None]
    if missing:
        _add(folder, missing)
    settings = folder / "tokenizer_config.json"
    write_json(settings, {**(read_json(settings) if settings.is_file() else {}), "chat_family": FAMILY})


def _add(folder: Path, markers: list[str]) -> None:
    import torch
    from transformers import AddedToken, AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    pieces = [tokenizer.encode(marker, add_special_tokens=False) for marker in markers]
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in markers])
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=64, mean_resizing=False)
    parts = model.get_input_embeddings(), model.get_output_embeddings()
    tables = {id(part.weight): part.weight for part in parts}  # one where they are tied
    with torch.no_grad():
        for table in tables.values():
            for marker, ids in zip(markers, pieces, strict=True):
                table[tokenizer.convert_tokens_to_ids(marker)] = table[ids].mean(0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
