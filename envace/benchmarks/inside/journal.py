"""Outcomes noted as they come, so that a killed run goes on where it was; for use inside and outside."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
"""An outcome; its `id` says of what."""


def mend(path: Path) -> None:
    """Cut off the line that a kill left without its end."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        path.write_bytes(whole)


def noted(path: Path) -> dict[str, Row]:
    """Outcomes by id; none where there is no journal."""
    mend(path)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def note(path: Path, row: Row) -> None:
    """Add an outcome, for good."""
    with path.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(row) + "\n")
        handle.flush()
        os.fsync(handle.fileno())


def each(ids: Iterable[str], path: Path | None, play: Callable[[str], Row]) -> Iterator[Row]:
    """The outcome of every task; those in the journal are not played again.

    Args:
        ids: Tasks.
        path: The journal; None keeps none.
        play: Makes the outcome of a task.
    """
    done = noted(path) if path else {}
    for id in ids:
        if id in done:
            yield done[id]
            continue
        row = play(id)
        if path:
            note(path, row)
        yield row
