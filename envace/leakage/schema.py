"""Tools in common: names, parameter sets and schemas that training and evaluation share (same domain)."""

import json
import marshal
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envace.leakage.calls import folded
from envace.leakage.material import Chunk, Finder, Found, Hit, Items, asked, joined
from envace.leakage.records import EvalItem
from envace.trajectory import Tool, Trajectory

MIN_PARAMETERS = 3
"""Two tools of different names with fewer equal parameters than this are alike by chance."""

_ANNOTATIONS = {"title", "description", "default", "examples", "$schema", "$id", "$comment"}
_TYPES = {
    "dict": "object", "map": "object", "hashmap": "object", "list": "array", "tuple": "array",
    "arraylist": "array", "float": "number", "double": "number", "int": "integer", "long": "integer",
    "bool": "boolean", "str": "string", "char": "string",
}  # fmt: skip


def canonical_schema(parameters: Mapping[str, Any]) -> str:
    """A parameter schema without what does not change which calls it accepts, as compact JSON.

    Descriptions, titles, defaults and orders do not count, and type names of programming languages
    are those of JSON schema.
    """
    return json.dumps(_plain(parameters), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _ANNOTATIONS:
            continue
        if key == "properties" and isinstance(value, Mapping):
            # A property may well be called `title`: the names of properties are no keywords.
            plain[key] = {name: _plain(inner) for name, inner in value.items()}
        elif key == "type" and isinstance(value, str):
            plain[key] = _TYPES.get(value.lower(), value.lower())
        elif key in ("required", "enum", "type") and isinstance(value, list):
            plain[key] = sorted(map(str, value))
        elif isinstance(value, list):
            plain[key] = [_plain(inner) for inner in value]
        else:
            plain[key] = _plain(value)
    return plain


Key = tuple[str, str | frozenset[str]]
"""What tools can have in common: `name`, `parameters` or `schema`, and its folded or canonical form."""

REMEMBERED = 1 << 16
"""Different tools after which a finder forgets which ones it has looked at."""


@dataclass(frozen=True)
class Sighting:
    """Something that a tool of the items has, and the first trajectory that offers a tool with it."""

    key: Key
    """What it is."""
    train_id: str
    """Id of the trajectory."""
    train_text: str
    """What was asked in it."""


class Schemas(Finder):
    """Finds items with a tool that training has too: by name, by parameter names, by whole schema.

    The score is the share of the item's tools; the trajectory named is the first with such a tool.
    """

    def __init__(self, items: Items) -> None:
        self._items = items.records
        self._wanted = {key for item in self._items for name in item.tools for key in _keys(item, name)}
        self._seen: set[bytes] = set()
        self._new: list[Sighting] = []
        self._sightings: list[Sighting] = []
        self._first: dict[Key, int] = {}
        self._shared: list[dict[str, dict[str, int]]] = []

    def feed(self, chunk: Chunk) -> list[Hit]:
        met: set[int] = set()
        for trajectory in chunk.train:
            for tool in trajectory.tools:
                # A data set repeats its tools in every line, and what reads it gives the same object.
                if id(tool) not in met:
                    met.add(id(tool))
                    self._look(tool, trajectory)
        return []

    def _look(self, tool: Tool, trajectory: Trajectory) -> None:
        # Version 2 of the format has no references, so that equal tools have equal bytes, and it is far
        # faster to write than JSON.
        seen = marshal.dumps((tool.name, tool.parameters), 2)
        if seen in self._seen:
            return
        if len(self._seen) == REMEMBERED:
            self._seen.clear()
        self._seen.add(seen)
        keys: list[Key] = [
            ("name", folded(tool.name)),
            ("parameters", frozenset(tool.parameters.get("properties") or ())),
            ("schema", canonical_schema(tool.parameters)),
        ]
        for key in keys:
            if key in self._wanted:
                self._wanted.remove(key)
                self._new.append(Sighting(key, trajectory.id, joined(asked(trajectory))))

    def learned(self) -> list[Sighting]:
        new, self._new = self._new, []
        return new

    def learn(self, learned: list[Sighting]) -> None:
        for sighting in learned:
            if sighting.key not in self._first:
                self._first[sighting.key] = len(self._sightings)
                self._sightings.append(sighting)

    def finish(self) -> list[Found]:
        found = []
        self._shared = [
            {name: alike for name in item.tools if (alike := self._alike(item, name))} for item in self._items
        ]
        for number, (item, shared) in enumerate(zip(self._items, self._shared, strict=True)):
            if shared:
                first = self._sightings[min(min(alike.values()) for alike in shared.values())]
                detail = ", ".join(f"{name} ({', '.join(alike)})" for name, alike in shared.items())
                score = len(shared) / len(item.tools)
                found.append(Found(number, first.train_id, first.train_text, score, detail))
        return found

    def notes(self) -> list[str]:
        tools: dict[str, set[str]] = defaultdict(set)
        shared: dict[str, set[str]] = defaultdict(set)
        for item, alike in zip(self._items, self._shared, strict=True):
            tools[item.benchmark].update(item.tools)
            shared[item.benchmark].update(alike)
        return [
            f"same domain: training has {len(names)} of the {len(tools[benchmark])} tools of {benchmark}"
            for benchmark, names in shared.items()
            if names
        ]

    def _alike(self, item: EvalItem, name: str) -> dict[str, int]:
        """What a tool of an item has in common with training, and which sighting was the first of it."""
        alike = {str(key[0]): self._first[key] for key in _keys(item, name) if key in self._first}
        if "name" not in alike and len(_parameters(item, name)) < MIN_PARAMETERS:
            return {}
        return alike


def _keys(item: EvalItem, name: str) -> list[Key]:
    """What training may have in common with a tool of an item."""
    keys: list[Key] = [("name", folded(name))]
    if parameters := _parameters(item, name):
        keys.append(("parameters", parameters))
        if schema := item.json_schemas.get(name):
            keys.append(("schema", canonical_schema(schema)))
    return keys


def _parameters(item: EvalItem, name: str) -> frozenset[str]:
    return frozenset((item.json_schemas.get(name) or {}).get("properties") or item.schemas.get(name, ()))
