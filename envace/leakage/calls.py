"""Equality of call sequences: the reference solution of an item, found in training under any wording."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from envace.leakage.material import Hit, Material
from envace.trajectory import ToolCall


def canonical_calls(calls: Sequence[ToolCall]) -> str:
    """Names and arguments in order as compact JSON with sorted keys: what `EvalItem.gold_calls` holds."""
    return _canonical([{"name": call.name, "arguments": call.arguments} for call in calls])


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def readable(gold_calls: str) -> str:
    """The canonical form of an item's reference calls, or "" when it is not a JSON list of calls."""
    try:
        calls = json.loads(gold_calls)
    except ValueError:
        return ""
    keys = {"name", "arguments"}
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and call.keys() == keys for call in calls
    ):
        return ""
    return _canonical(calls)


def find(material: Material) -> list[Hit]:
    """Items whose whole reference sequence a trajectory makes.

    Sequences without a single argument (`list_accounts()`) are left out: they say nothing.
    """
    wanted: dict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(material.items):
        gold = readable(item.gold_calls)
        if gold and any(call["arguments"] for call in json.loads(gold)):
            wanted[gold].append(index)
    found: dict[str, list[int]] = defaultdict(list)
    if wanted:
        for number, trajectory in enumerate(material.train):
            sequence = canonical_calls(trajectory.calls())
            if sequence in wanted:
                found[sequence].append(number)
    return [
        Hit(item, tuple(train), 1.0, detail=sequence)
        for sequence, train in found.items()
        for item in wanted[sequence]
    ]
