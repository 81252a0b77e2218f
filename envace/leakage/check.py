"""The leakage check: search the training data for evaluation items and apply the policy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from envace.errors import EnvaceError
from envace.files import atomic_text, write_json
from envace.leakage.methods import Choice
from envace.leakage.records import BenchmarkRow, EvalItem, Match
from envace.leakage.search import Leak, Search
from envace.leakage.workers import CHUNK, Looked, Numbered, look_through
from envace.trajectory import Quarantined, Trajectory, write_records
from envace.trajectory.jsonl import record_line

Policy = Literal["report", "remove", "fail"]


@dataclass(frozen=True)
class LeakageResult:
    """What was found."""

    clean: int
    """Trajectories to go on with: all that could be read, unless the policy is `remove`."""
    removed: int
    """Trajectories taken out."""
    unreadable: int
    """Lines that are no trajectory, set aside with those removed."""
    leaking: int
    """Trajectories that match an item under a method of kind `leak`."""
    matches: list[Match]
    """For every method and item found, the closest pair."""
    table: list[BenchmarkRow]
    """One row for every evaluation set."""
    notes: list[str]
    """What this check did not see."""

    def require_clean(self) -> None:
        """Raise a one-line error when anything leaked."""
        first = next((match for match in self.matches if match.kind == "leak"), None)
        if first is not None:
            raise EnvaceError(
                f"{self.leaking} training trajectories leak evaluation items, first: {first.train_id} holds "
                f"{first.benchmark} {first.item_id} ({first.method}, {first.score:.0%})",
                "use the policy `remove`, or `report` to go on knowingly",
            )

    def metrics(self) -> dict[str, Any]:
        """Counts and table as plain JSON values."""
        return {
            "clean": self.clean,
            "removed": self.removed,
            "unreadable": self.unreadable,
            "leaking": self.leaking,
            "table": [row.model_dump(mode="json") for row in self.table],
            "notes": self.notes,
        }


def check(
    train: Sequence[Trajectory], items: Sequence[EvalItem], methods: Choice | None = None
) -> tuple[LeakageResult, list[Leak | None]]:
    """Compare training data in memory with evaluation items.

    Args:
        train: Training trajectories.
        items: Items of any number of evaluation sets.
        methods: Methods of `METHODS` with their options; those that need none when None.

    Returns:
        What was found, and for every trajectory the item it leaks, or None.

    Raises:
        EnvaceError: An unknown method or option.
    """
    search = Search(items, methods)
    chunks = (train[begin : begin + CHUNK] for begin in range(0, len(train), CHUNK))
    leaks = [leak for chunk in chunks for leak in search.take(search.look(chunk))]
    return _result(search, leaks=len(leaks) - leaks.count(None), clean=len(train)), leaks


def _result(search: Search, leaks: int, clean: int, removed: int = 0, unreadable: int = 0) -> LeakageResult:
    matches = search.matches()
    notes = search.notes()
    if unreadable:
        notes.append(f"not checked: {unreadable} line(s) that are no trajectory, set aside")
    return LeakageResult(clean, removed, unreadable, leaks, matches, search.table(matches), notes)


@dataclass(frozen=True)
class LeakageFiles:
    """Where `check_files` writes."""

    clean: Path
    """Training data after the policy: lines of the input as they were."""
    quarantine: Path
    """Trajectories removed, and lines that are none."""
    matches: Path
    """All matches, one a line."""
    metrics: Path
    """Counts, table and notes."""


def check_files(
    train: Path,
    items: Iterable[EvalItem],
    files: LeakageFiles,
    policy: Policy = "report",
    methods: Choice | None = None,
    workers: int = 1,
) -> LeakageResult:
    """Check a trajectory file against evaluation items; the findings are written even when it fails.

    The training data is streamed: memory grows with the items, not with its length.

    Args:
        train: Trajectory file.
        items: Items of any number of evaluation sets.
        files: Where to write.
        policy: `report` changes nothing, `remove` takes leaking trajectories out, `fail` raises.
        methods: As for `check`.
        workers: Processes that compare; 1 compares in this one.

    Raises:
        EnvaceError: An absent file, an unknown method, or a leak under the policy `fail`.
    """
    search = Search(list(items), methods)
    with atomic_text(files.clean) as clean:
        with atomic_text(files.quarantine) as aside:
            looked = look_through(train, search, workers)
            counts = _pass_on(looked, search, str(train), clean, aside, remove=policy == "remove")
        result = _result(search, *counts)
        write_records(files.matches, result.matches)
        write_json(files.metrics, result.metrics())
        if policy == "fail":
            result.require_clean()
    return result


def _pass_on(
    looked: Iterable[tuple[Numbered, Looked]],
    search: Search,
    file: str,
    clean: TextIO,
    aside: TextIO,
    remove: bool,
) -> tuple[int, int, int, int]:
    """Take the findings in and pass the lines on; counts those that leak, are clean, removed, unreadable."""
    leaking = kept = removed = unreadable = 0
    for lines, found in looked:
        leaks = iter(search.take(found.partial))
        passed = []
        for (number, text), broken in zip(lines, found.broken, strict=True):
            if broken is not None:
                unreadable += 1
                aside.write(record_line(broken))
                continue
            leak = next(leaks)
            leaking += leak is not None
            if leak is None or not remove:
                kept += 1
                passed.append(text + "\n")
            else:
                removed += 1
                rule, reason = f"leakage:{leak.method}", f"leaks {leak.benchmark} {leak.item_id}"
                refused = Quarantined(file=file, line=number, rule=rule, reason=reason, record=text)
                aside.write(record_line(refused))
        clean.write("".join(passed))
    return leaking, kept, removed, unreadable
