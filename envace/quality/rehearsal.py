"""One rehearsed response with all that its writer saw: what the measures look at."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envace.trajectory.records import Message, Tool, ToolCall

NAME_WORDS = 3
"""Words from which on, exclusive, a string is prose and names nothing."""


@dataclass(frozen=True)
class Rehearsal:
    """A call, what came before it, and both responses."""

    world: str
    """World or tool server."""
    tool: Tool
    """Tool called."""
    call: ToolCall
    """The call."""
    history: Sequence[Message]
    """All that was said before the call."""
    predicted: str
    """What the environment role wrote."""
    actual: str
    """What the world answered."""

    @cached_property
    def value(self) -> Any:
        """The predicted response decoded; None when it is no JSON."""
        return decoded(self.predicted)

    @cached_property
    def truth(self) -> Any:
        """The actual response decoded; None when it is no JSON."""
        return decoded(self.actual)

    @cached_property
    def context(self) -> str:
        """Everything said before the response, the call included."""
        said = [part for m in self.history for part in (m.content, *(c.text() for c in m.tool_calls))]
        return "\n".join([*said, self.call.text()])

    @property
    def answers(self) -> bool:
        """Both responses are JSON objects or lists, and neither is an error."""
        both = (self.value, self.truth)
        return all(isinstance(value, dict | list) and not is_error(value) for value in both)


def decoded(text: str) -> Any:
    """The decoded text, or None when it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_error(value: Any) -> bool:
    """Whether a decoded response is an error object, `{"error": …}`."""
    return isinstance(value, dict) and "error" in value


def satisfies(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is valid under a JSON schema."""
    from jsonschema import Draft202012Validator

    return bool(Draft202012Validator(schema).is_valid(value))


def strings(value: Any) -> Iterator[str]:
    """All strings of a decoded response, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def names(value: Any) -> set[str]:
    """The words of all strings of a decoded response that are no prose."""
    return {word for text in strings(value) if len(words := text.split()) <= NAME_WORDS for word in words}
