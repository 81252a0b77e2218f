"""What type a schema is of when it does not say so itself: alternatives, constants, telling keywords."""

from collections.abc import Iterable
from typing import Any

_TELLING = {
    "object": {"properties", "additionalProperties", "patternProperties", "minProperties", "maxProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
    "string": {"pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}


def merged(branches: list[dict[str, Any]], exclusive: bool) -> dict[str, Any] | None:
    """One schema that says the same as the alternatives, where a list of types can say it.

    Args:
        branches: The alternatives of an `anyOf` or `oneOf`.
        exclusive: True for `oneOf`, of which exactly one may fit.
    """
    types = [branch.get("type") for branch in branches]
    if not all(isinstance(kind, str) for kind in types) or len(set(types)) < len(types):
        return None
    if all(branch.keys() == {"type"} for branch in branches):
        return None if exclusive and {"integer", "number"} <= set(types) else {"type": types}
    rest = [branch for branch in branches if branch != {"type": "null"}]
    if len(branches) != 2 or len(rest) != 1:
        return None
    # Other keywords look only at values of their own type; these would refuse the null as well.
    strict = {"enum", "const", "anyOf", "oneOf", "allOf", "not", "if"}
    return None if rest[0].keys() & strict else {**rest[0], "type": types}


def evidence(node: dict[str, Any]) -> list[str]:
    """Types that the rest of a schema leaves no doubt about; none when it does."""
    if isinstance(node.get("type"), str | list):
        return _unique([node["type"]] if isinstance(node["type"], str) else node["type"])
    if "const" in node:
        return [_type_of(node["const"])]
    if isinstance(node.get("enum"), list) and node["enum"]:
        return _unique(_type_of(value) for value in node["enum"])
    for key in ("anyOf", "oneOf"):
        if key in node:
            found = [evidence(branch) if isinstance(branch, dict) else [] for branch in node[key]]
            return _unique(name for types in found for name in types) if all(found) else []
    for branch in node.get("allOf", []):
        if isinstance(branch, dict) and evidence(branch):
            return evidence(branch)
    for name, keywords in _TELLING.items():
        if node.keys() & keywords:
            return [name]
    if node.get("default") is not None:
        kind = _type_of(node["default"])
        return ["number" if kind == "integer" else kind]
    return []


def _unique(names: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(names))
    return [name for name in found if name != "integer" or "number" not in found]


def _type_of(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")
