"""A small byte-level BPE whose units suit copying: one token a name syllable, single digits.

Every text can be encoded (bytes are the base alphabet). Marker tokens in user text are
encoded as plain text, so nobody can forge a turn.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.errors import EnvaceError
from envace.files import read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, SYSTEM, USER, MEMORY, ACT, ENV, END = range(7)
MARKERS = ("<|pad|>", "<|system|>", "<|user|>", "<|memory|>", "<|act|>", "<|env|>", "<|end|>")

UNITS = (
    r'\{"name":"|","arguments":\{"?|\{"error":"'  # the fixed frame of a call and of a refusal
    r"|(?<![a-z])[bdfgklmnprstvz][aeiou](?=[bdfgklmnprstvz][aeiou](?![a-z_]))"  # first name syllable
    r"|[a-z_]+|[A-Z]|\d|\n|[^a-zA-Z0-9_\n]+"
)
"""Pre-token pattern: merges never cross these units."""


def train(texts: Iterable[str], vocabulary: int) -> "Tokenizer":
    """Train the tokenizer on a corpus; `vocabulary` counts bytes, markers and merges."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(UNITS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=list(MARKERS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def load(folder: Path | str) -> "Tokenizer":
    """Load `tokenizer.json` of a model folder; markers in text stay plain text."""
    from tokenizers import Tokenizer

    saved = read_tokenizer(folder)
    # Only tokens marked special stay plain text, and Qwen's tool markers are not marked.
    for token in saved["added_tokens"]:
        token["special"] = True
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.encode_special_tokens = True
    return tokenizer


def read_tokenizer(folder: Path | str) -> dict[str, Any]:
    """The content of `tokenizer.json`, at least with a list of `added_tokens`."""
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise EnvaceError(f"{path}: no such file", "run the `model` stage first")
    return {"added_tokens": [], **read_json(path)}
