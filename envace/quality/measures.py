"""What can be said of a single rehearsed response: pure functions, and their registry.

A new measure is one function and one line in `MEASURES`. It answers None where it has nothing to say.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from envace.quality.conservation import adds_up
from envace.quality.rehearsal import Rehearsal, is_error, names, satisfies
from envace.trajectory.markup import MARKUP

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "pattern": r"\S"}},
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
"""The form of an error: what went wrong in `error`, and plain details beside it."""
LONGEST, ROOM = 4, 40
"""A response has at most `LONGEST` times the characters of the true one, or `ROOM`."""

_CALL = re.compile(r'\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"arguments"\s*:')
_SAID = re.compile(r"\w+")


def error_contract(row: Rehearsal) -> bool | None:
    """An error has exactly the form of one, and is not a result at the same time."""
    if not is_error(row.value):
        return None
    returns = row.tool.returns
    return satisfies(row.value, ERROR) and not (returns is not None and satisfies(row.value, returns))


def echo(row: Rehearsal) -> bool | None:
    """Arguments that the true response repeats are repeated."""
    if not row.answers:
        return None
    given = {value for value in row.call.arguments.values() if isinstance(value, str)}
    repeated = given & names(row.truth)
    return repeated <= names(row.value) if repeated else None


def known_ids(row: Rehearsal) -> bool | None:
    """Names and ids were in the state or the conversation, but for as many as the call really made."""
    if not row.answers:
        return None
    said = set(_SAID.findall(row.context))
    made, true = ({w for w in names(value) if not set(_SAID.findall(w)) <= said}
                  for value in (row.value, row.truth))  # fmt: skip
    return len(made) <= len(true)


def own_role(row: Rehearsal) -> bool | None:
    """No mark of a chat template and no call stands in the response, unless the true one has it too."""
    return not any(mark.search(row.predicted) and not mark.search(row.actual) for mark in (MARKUP, _CALL))


def not_copied(row: Rehearsal) -> bool | None:
    """It is no copy of an earlier response, unless that is the true one."""
    earlier = {message.content.strip() for message in row.history if message.role == "tool"}
    if not earlier:
        return None
    return row.predicted.strip() not in earlier - {row.actual.strip()}


def length(row: Rehearsal) -> bool | None:
    """It is not much longer than the true response."""
    return len(row.predicted) <= max(ROOM, LONGEST * len(row.actual))


def granted(row: Rehearsal) -> bool | None:
    """What the world grants is not refused."""
    return None if is_error(row.truth) else not is_error(row.value)


@dataclass(frozen=True)
class Measure:
    """An entry of the registry."""

    holds: Callable[[Rehearsal], bool | None]
    """Whether a response keeps it; None where it does not apply."""
    least: float
    """Share of a tool's responses that must, where the parameters do not say."""


MEASURES: dict[str, Measure] = {
    "own_role": Measure(own_role, 0.99),
    "error_contract": Measure(error_contract, 0.95),
    "length": Measure(length, 0.95),
    "granted": Measure(granted, 0.80),
    "echo": Measure(echo, 0.80),
    "known_ids": Measure(known_ids, 0.80),
    "not_copied": Measure(not_copied, 0.90),
    "adds_up": Measure(adds_up, 0.80),
}
"""Measures by name."""


def measured(row: Rehearsal) -> dict[str, bool]:
    """The verdict of every measure that applies."""
    verdicts = {name: measure.holds(row) for name, measure in MEASURES.items()}
    return {name: verdict for name, verdict in verdicts.items() if verdict is not None}
