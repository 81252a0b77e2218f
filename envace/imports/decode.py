"""JSON as data sets hold it: in strings, as Python literals, with what JSON has no word for."""

import ast
import json
from typing import Any, NoReturn


def unreadable(what: str, mend: str) -> ValueError:
    """The error of a record that cannot be imported: what is wrong, and the mend."""
    return ValueError(f"{what} ({mend})")


def loads(text: str) -> Any:
    """Decode JSON strictly: no NaN, no half of a surrogate pair, no nesting deeper than Python's.

    Raises:
        ValueError: The text is no JSON.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise unreadable(f"not JSON: {error}", "mend the JSON") from error
    except RecursionError:
        raise unreadable("not JSON: nested too deeply", "flatten it") from None
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # as logs cut inside an emoji do
            cut = "half a surrogate pair (\\ud8xx), which UTF-8 cannot hold"
            raise unreadable(cut, "cut the text elsewhere") from None
    return value


def _refuse(name: str) -> NoReturn:
    raise unreadable(f"not JSON: {name} is no number", "write null or a number")


def decoded(value: Any, what: str, literals: bool = False) -> Any:
    """The value itself, or what it says when it is JSON in a string.

    Args:
        value: Anything.
        what: How an error names it.
        literals: Also read a Python literal (`{'name': 'f', 'arguments': None}`).

    Raises:
        ValueError: A string that is no JSON.
    """
    if not isinstance(value, str):
        return value
    try:
        return loads(value) if value.strip() else None
    except ValueError as error:
        if literals and (found := _literal(value)) is not None:
            return found
        raise ValueError(f"{what}: {error}") from error


def _literal(text: str) -> Any:
    try:
        # Through JSON, since a set, bytes or a complex number have no place in a trajectory.
        return loads(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def as_list(value: Any, what: str) -> list[Any]:
    """A list, decoded if need be; nothing is an empty one."""
    found = decoded(value, what)
    if found is None:
        return []
    if not isinstance(found, list):
        raise unreadable(f"{what}: a list, not {type(found).__name__}", "give a list, or JSON of one")
    return found


def as_object(value: Any, what: str, literals: bool = False) -> dict[str, Any]:
    """An object, decoded if need be."""
    found = decoded(value, what, literals)
    if not isinstance(found, dict):
        raise unreadable(f"{what}: an object, not {type(found).__name__}", "give an object, or JSON of one")
    return found
