"""Type names as tool lists write them (`str, optional`, `List[int]`, `Optional[dict]`) as JSON schemas.

They come from signatures of Python and TypeScript, above all in xLAM and in hand-written tool lists.
"""

import re
from typing import Any

JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
"""The types that JSON schema knows."""
ANY = ("string", "number", "boolean", "object", "array", "null")
"""Any value, as a list of types (a number may be an integer)."""

_ALIASES = {
    "string": "str text char date datetime time datetime.date datetime.datetime uuid url uri path bytes",
    "integer": "int long short int32 int64 uint",
    "number": "float double decimal complex numeric float32 float64",
    "boolean": "bool",
    "object": "dict map mapping hash hashmap struct json record",
    "array": "list tuple set sequence iterable frozenset np.ndarray numpy.ndarray",
    "null": "none nonetype nil void undefined",
}
_JSON_OF = {alias: name for name, aliases in _ALIASES.items() for alias in [name, *aliases.split()]}
_GENERIC = re.compile(r"([\w.]+)\s*[\[<(](.*)[\])>]", re.DOTALL)
_OPTIONAL = re.compile(r",?\s*\b(optional|required|default\b.*)$", re.IGNORECASE | re.DOTALL)


def is_optional(text: str) -> bool:
    """True when the name itself says that the argument may be left out."""
    return bool(re.search(r"\boptional\b", text, re.IGNORECASE))


def schema_of(text: str) -> dict[str, Any] | None:
    """The JSON schema of a type name, or None where the name says nothing.

    Args:
        text: E.g. `str`, `List[int], optional`, `int | None`, `Union[int, str]`, `any`.
    """
    text = _OPTIONAL.sub("", text.strip()).strip()
    parts = _split(text, "|")
    if len(parts) > 1:
        return _union(parts)
    if text.endswith("[]"):
        return _array(text[:-2])
    generic = _GENERIC.fullmatch(text)
    if generic:
        return _generic(generic[1].rpartition(".")[2].lower(), _split(generic[2], ","))
    if text.lower() in ("any", "object?", "typing.any"):
        return {"type": list(ANY)}
    name = _JSON_OF.get(text.lower())
    return {"type": name} if name else None


def _generic(name: str, inside: list[str]) -> dict[str, Any] | None:
    if name == "optional":
        return _union([*inside, "null"])
    if name == "union":
        return _union(inside)
    kind = _JSON_OF.get(name)
    if kind == "array":
        # The parts of a tuple differ; only one part for all elements says what an element is.
        same = {part for part in inside if part != "..."}
        return _array(same.pop()) if len(same) == 1 else {"type": "array"}
    return {"type": kind} if kind else None


def _array(element: str) -> dict[str, Any]:
    items = schema_of(element)
    return {"type": "array", "items": items} if items else {"type": "array"}


def _union(parts: list[str]) -> dict[str, Any] | None:
    schemas = [schema_of(part) for part in parts]
    known = [schema for schema in schemas if schema is not None]
    if len(known) < len(schemas):
        return None
    return known[0] if len(known) == 1 else {"anyOf": known}


def _split(text: str, separator: str) -> list[str]:
    """Parts of `text` between separators outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(<") - (letter in "])>")
        if letter == separator and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
