"""The inbox: files that people drop, each imported, filtered and checked for leakage before it is used.

`inbox/*.jsonl` holds trajectories, `inbox/FORMAT/*` files that `envace import FORMAT` reads. A file is
taken when it is complete, so move it in; names that begin with a dot are left alone.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from envace.errors import EnvaceError
from envace.files import digest
from envace.filters import filter_files, make_rules
from envace.imports import FORMATS, import_files
from envace.leakage import EvalItem, LeakageFiles, LeakageResult, check_files
from envace.params import FilterParams
from envace.trajectory import Quarantined, iter_records

REFUSED, USED = "refused", "used"
"""Folders of the inbox: files that cannot be used, with the reason beside them, and files that were."""


@dataclass(frozen=True)
class Received:
    """What became of one file."""

    path: Path
    """The file."""
    name: str
    """Its path within the inbox."""
    accepted: Path | None
    """Where its usable rows are, under a name by their content; None when there are none."""
    rows: int
    """Usable rows."""
    leaked: int
    """Rows left out because they match a benchmark."""
    dropped: int
    """Rows left out by import or filter."""
    reason: str
    """Why there are none, in one line; empty otherwise."""

    def row(self) -> dict[str, str | int]:
        """For a table."""
        return {
            "file": self.name,
            "rows": self.rows,
            "leaked": self.leaked,
            "dropped": self.dropped,
            "refused": self.reason,
        }


def waiting(inbox: Path) -> list[Path]:
    """Files to take, in order of their names.

    Raises:
        EnvaceError: The inbox is no folder.
    """
    if not inbox.is_dir():
        raise EnvaceError(f"{inbox}: no such folder", "make it, or name another with the parameter inbox")
    folders = [inbox, *(inbox / name.replace("_", sign) for name in FORMATS for sign in "_-")]
    found = {path for folder in folders for path in folder.glob("*") if path.is_file()}
    return sorted(path for path in found if not path.name.startswith("."))


def receive(
    path: Path, inbox: Path, accepted: Path, filtering: FilterParams, items: Sequence[EvalItem]
) -> Received:
    """Import, filter and check one file; its usable rows go to `accepted`, the others to `refused`.

    Args:
        path: The file.
        inbox: Folder it lies in, itself or in a folder of its format.
        accepted: Folder for usable rows.
        filtering: Rules, and the share of rows that may be lost to them.
        items: What must not be trained on.
    """
    name = path.relative_to(inbox).as_posix()
    with TemporaryDirectory(prefix="inbox-") as scratch:
        work = Path(scratch)
        try:
            kept, dropped = _sifted(path, path.parent != inbox, work, filtering)
            found = _checked(kept, items, work)
        except EnvaceError as error:
            return Received(path, name, None, 0, 0, 0, str(error))
        finally:
            _keep_aside(work, inbox / REFUSED / f"{name}.rows.jsonl")
        accepted.mkdir(parents=True, exist_ok=True)
        clean = work / "clean.jsonl"
        result = accepted / f"{digest(clean)}.jsonl"
        shutil.move(clean, result)
    return Received(path, name, result, found.clean, found.removed, dropped, "")


def _sifted(path: Path, foreign: bool, work: Path, filtering: FilterParams) -> tuple[Path, int]:
    """A file after import, if it is in another format, and filter; with the number of rows that were lost."""
    source, dropped = path, 0
    if foreign:
        source = work / "imported.jsonl"
        format = path.parent.name.replace("-", "_")
        dropped = import_files(format, [path], source, work / "aside_1.jsonl").quarantined
    kept, rules = work / "kept.jsonl", make_rules(filtering.rules)
    funnel = filter_files([source], kept, work / "aside_2.jsonl", rules)
    dropped += funnel.quarantined
    total = funnel.kept + dropped
    if not total:
        raise EnvaceError("no rows")
    # What the import set aside counts as well, so the limit is not left to the funnel.
    if dropped > filtering.max_loss * total:
        raise EnvaceError(f"{dropped} of {total} rows cannot be used, {_first(work)}")
    return kept, dropped


def _checked(kept: Path, items: Sequence[EvalItem], work: Path) -> LeakageResult:
    """Rows that match no benchmark go to `clean.jsonl`."""
    names = ("clean.jsonl", "aside_3.jsonl", "matches.jsonl", "metrics.json")
    found = check_files(kept, items, LeakageFiles(*(work / name for name in names)), "remove")
    if not found.clean:
        first = next(match for match in found.matches if match.kind == "leak")
        raise EnvaceError(
            f"all {found.leaking} rows match a benchmark, first: {first.train_id} holds "
            f"{first.benchmark} {first.item_id} ({first.method})"
        )
    return found


def _first(work: Path) -> str:
    """Why the first row was set aside."""
    asides = sorted(work.glob("aside_*.jsonl"))
    first = next(record for path in asides for record in iter_records(path, Quarantined))
    return f"first line {first.line}: {first.reason}"


def _keep_aside(work: Path, target: Path) -> None:
    """Rows that were left out, whole, in one file; none, no file."""
    rows = [path.read_bytes() for path in sorted(work.glob("aside_*.jsonl"))]
    if any(rows):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"".join(rows))


def refuse(received: Received, inbox: Path, reason: str) -> None:
    """Move a file out of the way, with the reason beside it."""
    moved = _move(received.path, inbox / REFUSED / received.name)
    moved.with_name(f"{moved.name}.reason.txt").write_text(reason + "\n", encoding="utf-8")


def put_away(received: Received, inbox: Path) -> None:
    """Move a file that was used."""
    _move(received.path, inbox / USED / received.name)


def _move(path: Path, target: Path) -> Path:
    """Move, never over another file of that name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    place, number = target, 1
    while place.exists():
        number += 1
        place = target.with_name(f"{target.stem}.{number}{target.suffix}")
    shutil.move(path, place)
    return place
