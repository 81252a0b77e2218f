"""Raw records of a file, each with its line: JSON lines or one JSON array."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.trajectory.jsonl import numbered_lines


@dataclass(frozen=True)
class Raw:
    """One record as it stands in its file."""

    line: int
    """Line on which it begins, from 1."""
    text: str
    """Its text."""
    value: Any
    """The decoded JSON; None where `error` is set."""
    error: str = ""
    """Why it could not be decoded or cannot be written again."""


def raw_records(path: Path) -> Iterator[Raw]:
    """Yield the records of a file that begins with `[` as an array, of any other as JSON lines.

    Raises:
        EnvaceError: The file is absent or not UTF-8, or an array is broken: what follows the
            break cannot be told apart.
    """
    lines = numbered_lines(path)
    first = next(lines, None)
    if first is None:
        return
    if first[1].startswith("["):
        yield from _array(path)
        return
    yield _line(*first)
    for number, text in lines:
        yield _line(number, text)


def _line(number: int, text: str) -> Raw:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Raw(number, text, None, f"not JSON: {error}")
    return _checked(number, text, value)


def _checked(number: int, text: str, value: Any) -> Raw:
    """The record, or an error when it holds half a surrogate pair, as logs cut inside an emoji do."""
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return Raw(number, text, None, "half a surrogate pair (\\ud8xx), which UTF-8 cannot hold")
    return Raw(number, text, value)


def _array(path: Path) -> Iterator[Raw]:
    text = path.read_text(encoding="utf-8")
    decoder = json.JSONDecoder()
    position = _skip(text, text.index("[") + 1)
    counted, line = 0, 1
    while text[position : position + 1] != "]":
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise EnvaceError(f"{path}:{line}: not JSON: {error}", "mend the array") from error
        yield _checked(line, text[position:end], value)
        position = _skip(text, end)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
        elif text[position : position + 1] != "]":
            raise EnvaceError(f"{path}:{line}: the array has no , or ] after this record", "mend the array")


def _skip(text: str, position: int) -> int:
    """The next position that is not white space."""
    while text[position : position + 1].isspace():
        position += 1
    return position
