"""Import: other people's files into trajectories, the unreadable set aside with file and line."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.imports import openai_messages
from envace.imports.containers import raw_records
from envace.trajectory import Quarantined, Trajectory, write_records
from envace.trajectory.jsonl import describe

Convert = Callable[[Any, str, str], Trajectory]
"""Turns a decoded record, a default id and an origin (file:line) into a trajectory, or raises ValueError."""

FORMATS: dict[str, Convert] = {"openai_messages": openai_messages.convert}
"""Formats by name."""


@dataclass
class ImportCounts:
    """What an import read: kept plus quarantined."""

    kept: int = 0
    """Records imported."""
    quarantined: int = 0
    """Records set aside."""
    reasons: Counter[str] = field(default_factory=Counter)
    """How often each reason occurred."""


def import_files(format: str, paths: Sequence[Path], out: Path, quarantine: Path) -> ImportCounts:
    """Import files of one format into one trajectory file.

    A record whose id was taken by an earlier one gets its origin appended.

    Raises:
        EnvaceError: An unknown format, an unreadable file, or not one record that could be imported.
    """
    if format not in FORMATS:
        raise EnvaceError(f"unknown format {format}", f"choose from {', '.join(FORMATS)}")
    counts = ImportCounts()
    bad: list[Quarantined] = []

    def imported() -> Iterator[Trajectory]:
        seen: set[str] = set()
        for result in _results(FORMATS[format], paths):
            if isinstance(result, Quarantined):
                bad.append(result)
                continue
            if result.id in seen:
                result = result.model_copy(update={"id": f"{result.id}@{result.lineage.origin}"})
            seen.add(result.id)
            counts.kept += 1
            yield result
        # Still inside the atomic write: when nothing was imported, a former output stays as it was.
        write_records(quarantine, bad)
        if bad and not counts.kept:
            raise EnvaceError(
                f"nothing could be imported, first {bad[0].file}:{bad[0].line}: {bad[0].reason}",
                f"is it in the format {format}?",
            )

    write_records(out, imported())
    counts.quarantined = len(bad)
    counts.reasons.update(record.reason for record in bad)
    return counts


def _results(convert: Convert, paths: Sequence[Path]) -> Iterator[Trajectory | Quarantined]:
    for path in paths:
        for raw in raw_records(path):
            rule, reason = "json", raw.error
            if not reason:
                rule = "import"
                try:
                    yield convert(raw.value, f"{path.stem}:{raw.line}", f"{path}:{raw.line}")
                    continue
                except ValueError as error:  # pydantic's ValidationError is one too
                    reason = describe(error)
            yield Quarantined(file=str(path), line=raw.line, rule=rule, reason=reason, record=raw.text)
