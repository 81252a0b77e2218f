"""The search: every method sees every chunk of the training data; the closest pair of every item stays."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from envace.leakage.material import Chunk, Found, Hit, Items, joined
from envace.leakage.methods import METHODS, Choice, default_methods, make_finders
from envace.leakage.records import BenchmarkRow, EvalItem, Match
from envace.leakage.text import tokenize
from envace.trajectory import Trajectory

CONTAMINATED = 0.02
"""Tülu 3: a set counts as contaminated when more than 2 % of its items leaked."""


@dataclass(frozen=True)
class Leak:
    """Why a training trajectory counts as leaking."""

    method: str
    """The first method that says so."""
    benchmark: str
    """The set of the item."""
    item_id: str
    """The first item it leaks."""


@dataclass(frozen=True)
class Partial:
    """What one chunk showed; plain values, so that another process may look and send it."""

    leaks: list[Leak | None]
    """For every trajectory, the item it leaks, or None."""
    closest: dict[str, list[Found]]
    """For every method, the best pair of each item it found."""
    learned: dict[str, Any]
    """For every method, what it learned."""


class Search:
    """Looks for the items in training data that is fed in chunks of any length.

    Memory holds the items, one best pair an item and method, and the chunk at hand.

    Args:
        items: Items of any number of evaluation sets.
        methods: Methods with their options; those that need none when None.

    Raises:
        EnvaceError: An unknown method or option.
    """

    def __init__(self, items: Sequence[EvalItem], methods: Choice | None = None) -> None:
        self.items = list(items)
        """What is looked for."""
        self.methods = default_methods() if methods is None else methods
        """How."""
        self._items = Items(self.items)
        self._finders = make_finders(self.methods, self._items)
        self._best: dict[str, dict[int, Found]] = {name: {} for name in self._finders}

    def look(self, train: Sequence[Trajectory]) -> Partial:
        """Compare a chunk, without taking the findings in."""
        chunk = Chunk(train)
        leaks: list[Leak | None] = [None] * len(train)
        closest = {}
        for name, finder in self._finders.items():
            hits = finder.feed(chunk)
            closest[name] = _closest(chunk, hits)
            if METHODS[name].kind == "leak":
                for index, number in _leaking(hits).items():
                    item = self._items.records[number]
                    leaks[index] = leaks[index] or Leak(name, item.benchmark, item.id)
        return Partial(leaks, closest, {name: finder.learned() for name, finder in self._finders.items()})

    def take(self, partial: Partial) -> list[Leak | None]:
        """Take in what a chunk showed; chunks come in the order of the data. Returns its leaks."""
        for name, finder in self._finders.items():
            finder.learn(partial.learned[name])
            best = self._best[name]
            for new in partial.closest[name]:
                old = best.get(new.item)
                if old is not None:
                    closest = old if old.score >= new.score else new
                    new = replace(closest, others=old.others + new.others + 1)
                best[new.item] = new
        return partial.leaks

    def matches(self) -> list[Match]:
        """After the last chunk: for every method and item found, the closest pair, located."""
        matches = []
        for name, finder in self._finders.items():
            closest = self._best[name] | {found.item: found for found in finder.finish()}
            matches += [self._match(name, closest[item]) for item in sorted(closest)]
        return matches

    def _match(self, name: str, found: Found) -> Match:
        item = self._items.records[found.item]
        method = METHODS[name]
        return Match(
            method=name,
            kind=method.kind,
            benchmark=item.benchmark,
            item_id=item.id,
            train_id=found.train_id,
            others=found.others,
            score=found.score,
            item_text=item.text,
            train_text=found.train_text,
            detail=found.detail,
            **(_common_run(item.text, found.train_text) if method.on_text else {}),
        )

    def table(self, matches: Sequence[Match]) -> list[BenchmarkRow]:
        """One row for every evaluation set."""
        counts: dict[str, int] = defaultdict(int)
        for item in self._items.records:
            counts[item.benchmark] += 1
        rows = []
        for benchmark, count in counts.items():
            mine = [match for match in matches if match.benchmark == benchmark]
            leaked = len({match.item_id for match in mine if match.kind == "leak"})
            rows.append(
                BenchmarkRow(
                    benchmark=benchmark,
                    items=count,
                    matched={name: sum(match.method == name for match in mine) for name in self._finders},
                    leaked=leaked,
                    contaminated=leaked > CONTAMINATED * count,
                )
            )
        return rows

    def notes(self) -> list[str]:
        """What was not checked, and what the methods saw of a set as a whole."""
        notes = [
            "not checked: what assistants, tools and system prompts of the training data say"
            " (but for the start state of an executable world)"
        ]
        if "embedding" not in self._finders:
            words = "paraphrases and translations; these methods compare words, not meaning"
            notes.insert(0, f"not checked: {words}")
        silent = sum(not length for length in self._items.lengths)
        if silent:
            notes.append(f"not checked by text: {silent} item(s) without any word")
        return list(
            dict.fromkeys([*notes, *(n for finder in self._finders.values() for n in finder.notes())])
        )


def _closest(chunk: Chunk, hits: Iterable[Hit]) -> list[Found]:
    """The best pair of every item hit."""
    by_item: dict[int, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_item[hit.item].append(hit)
    if not by_item:
        return []
    text_of = {owner: text for text, owners in enumerate(chunk.owners) for owner in owners}
    found = []
    for item, mine in by_item.items():
        best = min(mine, key=lambda hit: (-hit.score, hit.train))
        matching = len(best.train) if len(mine) == 1 else len(set().union(*(hit.train for hit in mine)))
        first = best.train[0]
        text = joined(chunk.texts[text_of[first]])
        found.append(Found(item, chunk.train[first].id, text, best.score, best.detail, matching - 1))
    return found


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


@lru_cache(1 << 12)  # several methods find the same pair
def _common_run(item_text: str, train_text: str) -> dict[str, Any]:
    """The longest run of tokens in both, by its place in each and as it stands in the training text."""
    ours, theirs = tokenize(item_text), tokenize(train_text)
    # autojunk would treat frequent tokens as noise and break the run.
    run = SequenceMatcher(None, ours.tokens, theirs.tokens, autojunk=False).find_longest_match()
    return {
        "item_span": (run.a, run.a + run.size),
        "train_span": (run.b, run.b + run.size),
        "span_text": theirs.cut(run.b, run.b + run.size),
    }
