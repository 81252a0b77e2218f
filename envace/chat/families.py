"""Which template a model folder talks: by what is written in it, else by its markers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from envace.chat.base import Template
from envace.chat.compact import CompactTemplate
from envace.chat.hermes import HermesTemplate
from envace.chat.tokenizer import read_tokenizer
from envace.errors import EnvaceError
from envace.files import read_json

TEMPLATES: dict[str, Callable[..., Template]] = {"compact": CompactTemplate, "hermes": HermesTemplate}
SIGNS = {"compact": "<|act|>", "hermes": "<|im_start|>"}
"""A marker that tells the family where the folder does not name it."""


def load_template(folder: Path | str) -> Template:
    """The template of a model folder.

    `chat_family` in `tokenizer_config.json` names it and `chat_options` are its arguments;
    without them the markers of the tokenizer decide.

    Raises:
        EnvaceError: The family is unknown, cannot be told, or refuses the options.
    """
    path = Path(folder) / "tokenizer_config.json"
    config: dict[str, Any] = read_json(path) if path.is_file() else {}
    family = config.get("chat_family") or _detect(folder)
    if family not in TEMPLATES:
        raise EnvaceError(f"{path}: no chat family {family!r}", f"one of {', '.join(TEMPLATES)}")
    try:
        return TEMPLATES[family](folder, **config.get("chat_options", {}))
    except TypeError as error:
        raise EnvaceError(f"{path}: chat_options: {error}", f"see {family} in envace.chat") from error


def _detect(folder: Path | str) -> str:
    markers = {token["content"] for token in read_tokenizer(folder)["added_tokens"]}
    for family, sign in SIGNS.items():
        if sign in markers:
            return family
    raise EnvaceError(
        f"{folder}: no known chat markers in its tokenizer",
        f"write chat_family ({' or '.join(TEMPLATES)}) into tokenizer_config.json",
    )
