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


@dataclass(frozen=True)
class Sighting:
    """A tool in training, and the first trajectory that offers it."""

    train_id: str
    """Id of the trajectory."""
    train_text: str
    """What was asked in it."""
    name: str
    """The tool's folded name."""
    parameters: frozenset[str]
    """The names of its parameters."""
    schema: str
    """Their canonical schema."""


class Schemas(Finder):
    """Finds items with a tool that training has too: by name, by parameter names, by whole schema.

    The score is the share of the item's tools; the trajectory named is the first with such a tool.
    """

    def __init__(self, items: Items) -> None:
        self._items = items.records
        self._seen: set[bytes] = set()
        self._new: list[Sighting] = []
        self._sightings: list[Sighting] = []
        self._first: dict[tuple[str, str | frozenset[str]], int] = {}
        self._shared: list[dict[str, dict[str, int]]] = []

    def feed(self, chunk: Chunk) -> list[Hit]:
        for trajectory in chunk.train:
            for tool in trajectory.tools:
                # A data set repeats its tools in every line. Version 2 of the format has no references,
                # so that equal tools have equal bytes, and it is far faster to write than JSON.
                key = marshal.dumps((tool.name, tool.parameters), 2)
                if key not in self._seen:
                    self._seen.add(key)
                    parameters = frozenset(tool.parameters.get("properties") or ())
                    schema = canonical_schema(tool.parameters)
                    text = joined(asked(trajectory))
                    self._new.append(Sighting(trajectory.id, text, folded(tool.name), parameters, schema))
        return []

    def learned(self) -> list[Sighting]:
        new, self._new = self._new, []
        return new

    def learn(self, learned: list[Sighting]) -> None:
        for sighting in learned:
            number = len(self._sightings)
            self._sightings.append(sighting)
            for kind in ("name", "parameters", "schema"):
                self._first.setdefault((kind, getattr(sighting, kind)), number)

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
        schema = item.json_schemas.get(name)
        parameters = frozenset((schema or {}).get("properties") or item.schemas.get(name, ()))
        alike = {"name": self._first.get(("name", folded(name)))}
        if parameters and (alike["name"] is not None or len(parameters) >= MIN_PARAMETERS):
            alike["parameters"] = self._first.get(("parameters", parameters))
            if schema:
                alike["schema"] = self._first.get(("schema", canonical_schema(schema)))
        return {kind: first for kind, first in alike.items() if first is not None}
