"""Values as Java and JavaScript source, in the dialect that BFCL's type converters read.

In these two languages an argument is the text of an expression; its declared type says how it is read.
"""

import json
from typing import Any

LANGUAGES = {"simple_java": "java", "simple_javascript": "javascript"}
"""Categories in another language than Python."""

BRACKETS = {"Array": "new Object[]{{{}}}", "ArrayList": "new ArrayList<>(Arrays.asList({}))", "array": "[{}]"}
"""A list of that declared type around its elements."""

SUFFIXES = {"long": "L", "float": "f"}
"""What Java writes after numbers of these types."""


def rewritten(answer: Any, functions: list[dict[str, Any]], language: str) -> Any:
    """An answer, text or calls in the official shape, with every argument as source text."""
    if isinstance(answer, str):
        return answer
    declared = {f["name"].replace(".", "_"): f["parameters"]["properties"] for f in functions}
    rows = []
    for call in answer:
        for name, text in call.items():
            arguments = {k: source(v, declared[name][k], language) for k, v in json.loads(text).items()}
            rows.append({name: json.dumps(arguments)})
    return rows


def source(value: Any, declared: dict[str, Any], language: str) -> str:
    """An argument as source text.

    Args:
        value: The value; text stands for itself, as names of variables do in the data.
        declared: Its entry in the function's `properties`.
        language: `java` or `javascript`.
    """
    kind = declared["type"]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value}{SUFFIXES.get(kind, '') if language == 'java' else ''}"
    if isinstance(value, list):
        inner = declared.get("items", {"type": "any"})
        # JavaScript's converter takes quotes off, Java's does so in an ArrayList of strings alone.
        quoted = language == "javascript" or (kind == "ArrayList" and inner["type"] in ("String", "char"))
        items = [source(item, inner, language) for item in value]
        texts = [
            f'"{text}"' if quoted and isinstance(v, str) else text
            for v, text in zip(value, items, strict=True)
        ]
        return BRACKETS[kind].format(", ".join(texts)) if texts else empty(kind)
    if isinstance(value, dict):
        return java_map(value) if language == "java" else javascript_object(value)
    return str(value)


def empty(kind: str) -> str:
    """A list without elements."""
    return "new ArrayList<>()" if kind == "ArrayList" else BRACKETS[kind].format("")


def java_map(value: dict[str, Any]) -> str:
    """A HashMap that fills itself."""
    puts = "".join(f'put("{key}", {quote(item)}); ' for key, item in value.items())
    return f"new HashMap<String, Object>() {{{{ {puts}}}}}"


def javascript_object(value: dict[str, Any]) -> str:
    """An object literal."""
    return "{" + ", ".join(f"{key}: {quote(item)}" for key, item in value.items()) + "}"


def quote(item: Any) -> str:
    """A member's value."""
    if isinstance(item, list):
        return "[" + ", ".join(map(quote, item)) + "]"
    return (
        str(item).lower() if isinstance(item, bool) else f'"{item}"' if isinstance(item, str) else str(item)
    )
