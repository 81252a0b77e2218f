"""What is known of a saved model without loading it."""

from math import prod
from pathlib import Path
from typing import Any


def facts(folder: Path) -> dict[str, Any]:
    """Number of parameters, from the headers of the weight files, and of token ids."""
    from safetensors import safe_open
    from tokenizers import Tokenizer

    count = 0
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="np") as weights:
            count += sum(prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    return {"parameters": count, "vocabulary": vocabulary}
