"""The leakage check: run the methods, find the closest pair of every item, apply the policy."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from envace.errors import EnvaceError
from envace.files import write_json
from envace.leakage.calls import readable
from envace.leakage.material import Hit, Material, prepare
from envace.leakage.methods import METHODS
from envace.leakage.records import BenchmarkRow, EvalItem, Match
from envace.trajectory import Quarantined, Trajectory, compact, iter_records, read_trajectories, write_records

Policy = Literal["report", "remove", "fail"]

CONTAMINATED = 0.02
"""Tülu 3: a set counts as contaminated when more than 2 % of its items leaked."""


@dataclass(frozen=True)
class LeakageResult:
    """What was found, and the training data after the policy was applied."""

    clean: list[Trajectory]
    """Training data to go on with; all of it unless the policy is `remove`."""
    removed: list[Quarantined]
    """Trajectories taken out, with the item each of them leaks."""
    leaking: int
    """Trajectories that match an item under a method of kind `leak`."""
    matches: list[Match]
    """For every method and item found, the closest pair."""
    table: list[BenchmarkRow]
    """One row for every evaluation set."""
    notes: list[str]
    """What this check cannot see."""

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
            "clean": len(self.clean),
            "removed": len(self.removed),
            "leaking": self.leaking,
            "table": [row.model_dump(mode="json") for row in self.table],
            "notes": self.notes,
        }


def check(
    train: Sequence[Trajectory],
    items: Sequence[EvalItem],
    policy: Policy = "report",
    methods: Iterable[str] | None = None,
    file: str = "<memory>",
) -> LeakageResult:
    """Compare training data with evaluation items.

    Args:
        train: Training trajectories.
        items: Items of any number of evaluation sets.
        policy: `report` changes nothing, `remove` takes leaking trajectories out, `fail` raises.
        methods: Names in `METHODS`; all when None.
        file: Where the training data was read from, one a line: for the records removed.

    Raises:
        EnvaceError: An unknown method, or a leak under the policy `fail`.
    """
    chosen = list(METHODS) if methods is None else list(methods)
    unknown = sorted(set(chosen) - set(METHODS))
    if unknown:
        raise EnvaceError(f"unknown leakage method {unknown[0]}", f"choose from {', '.join(METHODS)}")
    material = prepare(train, items)
    matches: list[Match] = []
    leaks: dict[int, Match] = {}
    for name in chosen:
        hits = METHODS[name].find(material)
        closest = _closest(material, name, hits)
        matches += closest.values()
        if METHODS[name].kind == "leak":
            for train_index, item in _leaking(hits).items():
                leaks.setdefault(train_index, closest[item])
    removing = leaks if policy == "remove" else {}
    result = LeakageResult(
        clean=[trajectory for index, trajectory in enumerate(train) if index not in removing],
        removed=[_removed(file, index, train[index], match) for index, match in sorted(removing.items())],
        leaking=len(leaks),
        matches=matches,
        table=_table(items, chosen, matches),
        notes=_notes(material),
    )
    if policy == "fail":
        result.require_clean()
    return result


def _leaking(hits: Iterable[Hit]) -> dict[int, int]:
    """For every trajectory hit, the first item it leaks."""
    by_group: dict[tuple[int, ...], int] = {}
    for hit in hits:
        by_group[hit.train] = min(hit.item, by_group.get(hit.train, hit.item))
    found: dict[int, int] = {}
    for group, item in by_group.items():
        for index in group:
            found[index] = min(item, found.get(index, item))
    return found


def _closest(material: Material, name: str, hits: Iterable[Hit]) -> dict[int, Match]:
    """The best pair of every item hit, located, in the order of the items."""
    by_item: dict[int, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_item[hit.item].append(hit)
    text_of = {owner: number for number, owners in enumerate(material.owners) for owner in owners}
    closest = {}
    for item, found in sorted(by_item.items()):
        best = min(found, key=lambda hit: (-hit.score, hit.train))
        others = len(set().union(*(hit.train for hit in found))) - 1
        closest[item] = _match(material, name, best, text_of[best.train[0]], others)
    return closest


def _match(material: Material, name: str, hit: Hit, text: int, others: int) -> Match:
    method = METHODS[name]
    ours, theirs = material.item_texts[hit.item], material.train_texts[text]
    place: dict[str, Any] = {"detail": hit.detail}
    if method.on_text:
        # autojunk would treat frequent tokens as noise and break the run.
        matcher = SequenceMatcher(None, ours.tokens, theirs.tokens, autojunk=False)
        run = matcher.find_longest_match()
        place = {
            "item_span": (run.a, run.a + run.size),
            "train_span": (run.b, run.b + run.size),
            "span_text": theirs.cut(run.b, run.b + run.size),
        }
    item = material.items[hit.item]
    return Match(
        method=name,
        kind=method.kind,
        benchmark=item.benchmark,
        item_id=item.id,
        train_id=material.train[hit.train[0]].id,
        others=others,
        score=hit.score,
        item_text=ours.source,
        train_text=theirs.source,
        **place,
    )


def _removed(file: str, index: int, trajectory: Trajectory, match: Match) -> Quarantined:
    record = compact(trajectory.model_dump(mode="json", exclude_defaults=True))
    reason = f"leaks {match.benchmark} {match.item_id}"
    return Quarantined(
        file=file, line=index + 1, rule=f"leakage:{match.method}", reason=reason, record=record
    )


def _table(items: Sequence[EvalItem], methods: Sequence[str], matches: Sequence[Match]) -> list[BenchmarkRow]:
    sizes: dict[str, int] = defaultdict(int)
    for item in items:
        sizes[item.benchmark] += 1
    rows = []
    for benchmark, size in sizes.items():
        mine = [match for match in matches if match.benchmark == benchmark]
        leaked = len({match.item_id for match in mine if match.kind == "leak"})
        rows.append(
            BenchmarkRow(
                benchmark=benchmark,
                items=size,
                matched={name: sum(match.method == name for match in mine) for name in methods},
                leaked=leaked,
                contaminated=leaked > CONTAMINATED * size,
            )
        )
    return rows


def _notes(material: Material) -> list[str]:
    notes = ["not checked: paraphrases and translations; these methods compare words, not meaning"]
    silent = sum(not text.tokens for text in material.item_texts)
    if silent:
        notes.append(f"not checked by text: {silent} item(s) without any word")
    opaque = sum(bool(item.gold_calls) and not readable(item.gold_calls) for item in material.items)
    if opaque:
        notes.append(f"not checked by calls: {opaque} item(s) whose gold_calls are not a JSON list of calls")
    return notes


@dataclass(frozen=True)
class LeakageFiles:
    """Where `check_files` writes."""

    clean: Path
    """Training data after the policy."""
    quarantine: Path
    """Trajectories removed."""
    matches: Path
    """All matches, one a line."""
    metrics: Path
    """Counts, table and notes."""


def check_files(
    train: Path,
    against: Sequence[Path],
    files: LeakageFiles,
    policy: Policy = "report",
    methods: Iterable[str] | None = None,
) -> LeakageResult:
    """Check a trajectory file against items files; the findings are written even when it fails."""
    items = [item for path in against for item in iter_records(path, EvalItem)]
    applied: Policy = "report" if policy == "fail" else policy
    result = check(read_trajectories(train), items, applied, methods, str(train))
    write_records(files.matches, result.matches)
    write_records(files.quarantine, result.removed)
    write_json(files.metrics, result.metrics())
    if policy == "fail":
        result.require_clean()
    write_records(files.clean, result.clean)
    return result
