"""Equality of call sequences: the reference solution of an item, found in training under any wording."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from envace.leakage.material import Chunk, Finder, Hit, Items
from envace.trajectory import ToolCall, Trajectory


def canonical_calls(calls: Sequence[ToolCall]) -> str:
    """Names and arguments in order as compact JSON with sorted keys: what `EvalItem.gold_calls` holds."""
    return _canonical([{"name": call.name, "arguments": call.arguments} for call in calls])


@lru_cache(maxsize=1 << 16)
def folded(name: str) -> str:
    """A tool name without case, dots and other separators, which exporters change as they need."""
    return re.sub(r"[\W_]+", "", name.casefold())


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def reference_calls(gold_calls: str) -> list[ToolCall] | None:
    """An item's reference calls, or None when `gold_calls` is not a JSON list of calls."""
    try:
        return [ToolCall.model_validate(call) for call in json.loads(gold_calls or "[]")]
    except (ValueError, TypeError):
        return None


class Calls(Finder):
    """Finds items whose whole reference sequence a trajectory makes.

    Sequences without a single argument (`list_accounts()`) are left out: they say nothing.
    """

    def __init__(self, items: Items) -> None:
        self._wanted: dict[str, list[int]] = defaultdict(list)
        self._names: set[tuple[str, ...]] = set()
        self._first: set[str] = set()
        self._unread = 0
        for number, item in enumerate(items.records):
            calls = reference_calls(item.gold_calls)
            if calls is None:
                self._unread += 1
            elif any(call.arguments for call in calls):
                self._wanted[_sequence(calls)].append(number)
                self._names.add(_names(calls))
                self._first.add(folded(calls[0].name))

    def feed(self, chunk: Chunk) -> list[Hit]:
        found: dict[str, list[int]] = defaultdict(list)
        for index, trajectory in enumerate(chunk.train):
            calls = _made(trajectory)
            if not calls or folded(calls[0].name) not in self._first:
                continue
            # The names first: they tell nearly all sequences apart, and cost no serialization.
            if _names(calls) in self._names and (sequence := _sequence(calls)) in self._wanted:
                found[sequence].append(index)
        return [
            Hit(item, tuple(train), 1.0, detail=canonical_calls(_made(chunk.train[train[0]])))
            for sequence, train in found.items()
            for item in self._wanted[sequence]
        ]

    def notes(self) -> list[str]:
        unread = f"not checked by calls: {self._unread} item(s) whose gold_calls are not a JSON list of calls"
        return [unread] if self._unread else []


def _made(trajectory: Trajectory) -> list[ToolCall]:
    return [call for message in trajectory.messages for call in message.tool_calls]


def _names(calls: Sequence[ToolCall]) -> tuple[str, ...]:
    return tuple(folded(call.name) for call in calls)


def _sequence(calls: Sequence[ToolCall]) -> str:
    return _canonical([[folded(call.name), call.arguments] for call in calls])
