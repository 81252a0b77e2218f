"""Import: other people's files into records, the unreadable set aside with file and line, repairs counted."""

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from envace.errors import EnvaceError
from envace.files import atomic_text, write_json
from envace.imports import (
    apigen_mt,
    cm2,
    finmcp,
    mcp_tools,
    nemotron,
    openai_messages,
    sharegpt,
    toucan,
    xlam,
)
from envace.imports.containers import Raw, raw_records
from envace.imports.conversation import Imported, Origin
from envace.progress import LINE_EVERY
from envace.trajectory import Quarantined, write_records
from envace.trajectory.jsonl import describe

Convert = Callable[[Any, Origin], Imported[Any]]
"""Turns a decoded record into a trajectory or a tool server with its repairs, or raises ValueError."""

FORMATS: dict[str, Convert] = {
    "openai_messages": openai_messages.convert,
    "cm2": cm2.convert,
    "sharegpt": sharegpt.convert,
    "hermes": sharegpt.convert,
    "toucan": toucan.convert,
    "apigen_mt": apigen_mt.convert,
    "xlam": xlam.convert,
    "nemotron": nemotron.convert,
    "finmcp": finmcp.convert,
    "mcp_tools": mcp_tools.convert,
}
"""Formats by name."""

MAX_REASONS = 1000
"""Distinct reasons counted apart; the rest count together."""


@dataclass
class ImportCounts:
    """What an import read: kept plus quarantined."""

    kept: int = 0
    """Records imported."""
    quarantined: int = 0
    """Records set aside."""
    reasons: Counter[str] = field(default_factory=Counter)
    """How often each reason occurred."""
    first: dict[str, str] = field(default_factory=dict)
    """Where each reason occurred first, as file:line."""
    repaired: int = 0
    """Records imported with at least one repair."""
    repairs: Counter[str] = field(default_factory=Counter)
    """How often each kind of repair was made (`imports.schema.REPAIRS`)."""

    def set_aside(self, record: Quarantined) -> None:
        """Count a record that goes to quarantine."""
        crowded = record.reason not in self.reasons and len(self.reasons) >= MAX_REASONS
        reason = "other reasons" if crowded else record.reason
        self.quarantined += 1
        self.reasons[reason] += 1
        self.first.setdefault(reason, f"{record.file}:{record.line}")

    def keep(self, repairs: Sequence[str]) -> None:
        """Count a record that was imported."""
        self.kept += 1
        self.repaired += bool(repairs)
        self.repairs.update(repairs)


class _Seen:
    """Ids met so far, in 4 MiB whatever their number: a Bloom filter that sets eight bits an id.

    A false alarm (about one in a million at a million ids) costs an origin behind an id that was
    unique without it.
    """

    BITS = 1 << 25

    def __init__(self) -> None:
        self._bits = bytearray(self.BITS // 8)

    def add(self, id: str) -> bool:
        """Add an id; returns whether it was there."""
        digest = hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=32).digest()
        known = True
        for place in range(0, 32, 4):
            bit = int.from_bytes(digest[place : place + 4], "big") % self.BITS
            known = known and bool(self._bits[bit >> 3] >> (bit & 7) & 1)
            self._bits[bit >> 3] |= 1 << (bit & 7)
        return known


def import_files(format: str, paths: Sequence[Path], out: Path, quarantine: Path) -> ImportCounts:
    """Import files of one format into one file, beside it the counts as `NAME.metrics.json`.

    A record whose id was taken by an earlier one gets its origin appended. Memory does not grow with the
    number of records.

    Raises:
        EnvaceError: An unknown format, an unreadable file, or not one record that could be imported.
    """
    if format not in FORMATS:
        raise EnvaceError(f"unknown format {format}", f"choose from {', '.join(FORMATS)}")
    counts = ImportCounts()

    def imported() -> Iterator[Any]:
        seen = _Seen()
        with atomic_text(quarantine) as aside:
            for result in _results(format, paths, counts):
                if isinstance(result, Quarantined):
                    counts.set_aside(result)
                    _write_line(aside, result)
                    continue
                record = result.record
                if seen.add(record.id):
                    record = record.model_copy(update={"id": f"{record.id}@{record.lineage.origin}"})
                counts.keep(result.repairs)
                yield record
        # Still inside the atomic write: when nothing was imported, a former output stays as it was.
        if counts.quarantined and not counts.kept:
            reason, place = next(iter(counts.first.items()))
            raise EnvaceError(
                f"nothing could be imported, first {place}: {reason}", f"is it in the format {format}?"
            )

    write_records(out, imported())
    facts = {"kept": counts.kept, "quarantined": counts.quarantined, "reasons": dict(counts.reasons)}
    facts |= {"repaired": counts.repaired, "repairs": dict(sorted(counts.repairs.items()))}
    write_json(out.with_suffix(".metrics.json"), {"format": format} | facts)
    return counts


def _results(
    format: str, paths: Sequence[Path], counts: ImportCounts
) -> Iterator[Imported[Any] | Quarantined]:
    said = time.monotonic()
    for number, path in enumerate(paths, start=1):
        for raw in raw_records(path):
            yield _result(format, path, raw)
            if time.monotonic() - said >= LINE_EVERY:
                said = time.monotonic()
                done = f"{counts.kept} kept, {counts.quarantined} set aside"
                print(f"import: file {number}/{len(paths)}, {done}", file=sys.stderr, flush=True)


def _result(format: str, path: Path, raw: Raw) -> Imported[Any] | Quarantined:
    rule, reason = "json", raw.error
    if not reason:
        rule = "import"
        try:
            return FORMATS[format](raw.value, Origin(format, f"{path.stem}:{raw.line}", f"{path}:{raw.line}"))
        except ValidationError as error:
            reason = f"{describe(error)} (mend the field)"
        except ValueError as error:
            reason = describe(error)
        except RecursionError:
            reason = "nested too deeply (flatten it)"
    return Quarantined(file=str(path), line=raw.line, rule=rule, reason=reason, record=raw.text)


def _write_line(handle: TextIO, record: Quarantined) -> None:
    handle.write(record.model_dump_json(exclude_defaults=True) + "\n")
