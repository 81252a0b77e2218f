"""Raw records of a file, each with its line: JSON lines, a JSON array, other JSON, or parquet."""

import codecs
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.imports.decode import loads
from envace.imports.documents import parts
from envace.imports.parquet import MAGIC, rows

HEAD = 4096
"""Bytes at the head of a file that tell its kind."""


@dataclass(frozen=True)
class Raw:
    """One record as it stands in its file."""

    line: int
    """Line on which it begins, or its row in a parquet file, from 1."""
    text: str
    """Its text."""
    value: Any
    """The decoded JSON; None where `error` is set."""
    error: str = ""
    """Why it could not be decoded or cannot be written again, and the mend."""


def raw_records(path: Path) -> Iterator[Raw]:
    """Yield the records of a file, whose kind is told by its content.

    A parquet file gives rows, a file that begins with `[` the elements of that array, a `.json` file whose
    first line is no JSON by itself (an object over several lines) the values that follow each other, and
    any other file a record a line. Memory holds one record, or one batch of rows.

    Raises:
        EnvaceError: The file is absent, is no readable parquet file, or has an element without an end.
    """
    if not path.is_file():
        raise EnvaceError(f"{path}: no such file", "check the path")
    with path.open("rb") as binary:
        head = binary.read(HEAD)
    if head.startswith(MAGIC):
        for row, text, fault in rows(path):
            yield Raw(row, text, None, fault) if fault else _decoded(row, text)
        return
    # Bytes that are no UTF-8 become surrogates, for which `_decoded` looks.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as handle:
        lines = ((number, line.strip()) for number, line in enumerate(handle, start=1))
        texts = ((number, line) for number, line in lines if line)
        array = head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
        if not array:
            first = next(texts, None)
            if first is None:
                return
            if path.suffix != ".json" or not _decoded(*first).error:
                for number, text in itertools.chain([first], texts):
                    yield _decoded(number, text)
                return
            handle.seek(0)
        for part in parts(handle, str(path), array):
            faulty = Raw(part.line, part.text, None, part.fault)
            yield faulty if part.fault else _decoded(part.line, part.text)


def _decoded(line: int, text: str) -> Raw:
    try:
        text.encode()
    except UnicodeEncodeError:
        escaped = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
        return Raw(line, escaped, None, "not UTF-8 (re-encode the file as UTF-8)")
    try:
        return Raw(line, text, loads(text))
    except ValueError as error:
        return Raw(line, text, None, str(error))
