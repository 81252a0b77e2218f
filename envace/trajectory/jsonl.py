"""Trajectory files: strict reading with file:line errors, quarantine, atomic writing."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from envace.errors import EnvaceError
from envace.files import atomic_text
from envace.trajectory.records import Record, Trajectory, compact

RecordT = TypeVar("RecordT", bound=BaseModel)


class Quarantined(Record):
    """A record that was set aside, whole, with the reason."""

    file: str
    """File it was read from."""
    line: int
    """Line number from 1."""
    rule: str
    """Name of the rule that refused it."""
    reason: str
    """Why, in one line."""
    record: str
    """The raw line, so that nothing is lost."""


@dataclass(frozen=True)
class Line:
    """A trajectory and where it stands."""

    file: str
    """File it was read from."""
    number: int
    """Line number from 1."""
    text: str
    """The line as it is."""
    trajectory: Trajectory
    """What it says."""

    def refused(self, rule: str, reason: str) -> Quarantined:
        """The line set aside, whole."""
        return Quarantined(file=self.file, line=self.number, rule=rule, reason=reason, record=self.text)


def describe(error: Exception) -> str:
    """The first problem of a validation error as one line with the field's path."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def numbered_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of the non-blank lines of a UTF-8 file."""
    path = Path(path)
    if not path.is_file():
        raise EnvaceError(f"{path}: no such file", "check the path")
    with path.open("rb") as handle:
        for number, raw in enumerate(handle, start=1):
            try:
                text = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise EnvaceError(f"{path}:{number}: not UTF-8: {error}", "re-encode as UTF-8") from error
            if text:
                yield number, text


def iter_records(path: Path | str, record: type[RecordT]) -> Iterator[RecordT]:
    """Stream records of one type; the first bad line raises with its file and line."""
    for number, text in numbered_lines(path):
        try:
            yield record.model_validate_json(text)
        except ValidationError as error:
            raise EnvaceError(
                f"{path}:{number}: {describe(error)}", "mend the line or run `envace filter`"
            ) from error


def read_trajectories(path: Path | str) -> list[Trajectory]:
    """Read a whole trajectory file strictly."""
    return list(iter_records(path, Trajectory))


def iter_tolerant(path: Path | str) -> Iterator[Line | Quarantined]:
    """Stream a trajectory file; bad lines come as quarantine records instead of raising."""
    return (parse_line(str(path), number, text) for number, text in numbered_lines(path))


def parse_line(file: str, number: int, text: str) -> Line | Quarantined:
    """A line of a trajectory file, or why it is no trajectory."""
    try:
        return Line(file, number, text, Trajectory.model_validate_json(text))
    except ValidationError as error:
        rule = "schema" if _is_json(text) else "json"
        return Quarantined(file=file, line=number, rule=rule, reason=describe(error), record=text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def record_line(record: BaseModel) -> str:
    """A record as one JSON line; half an emoji (a lone surrogate) has no UTF-8 form and becomes U+FFFD.

    Fields at their default are left out (but for the schema version): the file stays
    readable and half the length.
    """
    fields = record.model_dump(mode="json", exclude_defaults=True)
    if isinstance(record, Trajectory):
        fields = {"schema_version": record.schema_version} | fields
    return re.sub("[\ud800-\udfff]", "\ufffd", compact(fields)) + "\n"


def write_records(path: Path | str, records: Iterable[BaseModel]) -> int:
    """Write records as JSON lines, atomically; returns how many."""
    count = 0
    with atomic_text(path) as handle:
        for record in records:
            handle.write(record_line(record))
            count += 1
    return count
