"""What speaks against a call, read from its predicted responses alone.

A rule is a function from a rehearsed call to a reason, None when it has nothing to say, and one line in
`RULES`. All rules are heard; the strictest decision stands.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field, field_validator, model_validator

from envace.guard.verdict import STRICTNESS, Decision
from envace.trajectory.records import Record, compact

SHOWN = 120
"""Characters of a value or prediction that a reason quotes."""


class Limit(Record):
    """What a field of predicted responses must be."""

    tool: str = "*"
    """Pattern of the tools it holds for."""
    field: str = Field(min_length=1)
    """Path in the response, keys and list positions joined by dots; `*` stands for every one."""
    min: float | None = None
    """Lowest number that is fine."""
    max: float | None = None
    """Highest number that is fine."""
    one_of: tuple[str | int | float | bool | None, ...] | None = None
    """The values that are fine."""

    @model_validator(mode="after")
    def _limits_something(self) -> "Limit":
        if self.min is None and self.max is None and self.one_of is None:
            raise ValueError(f"the limit on {self.field} has neither min, max nor one_of")
        return self

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value; None when it is fine."""
        if self.one_of is not None and not any(_equal(value, fine) for fine in self.one_of):
            return f"{self.field} is {_short(value)}, not one of {_short(list(self.one_of))}"
        if self.min is None and self.max is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{self.field} is {_short(value)}, no number"
        if self.min is not None and not value >= self.min:
            return f"{self.field} is {_short(value)}, below {self.min:g}"
        if self.max is not None and not value <= self.max:
            return f"{self.field} is {_short(value)}, above {self.max:g}"
        return None


class RuleSettings(Record):
    """What the rules go by."""

    decisions: dict[str, Decision] = Field(default_factory=dict)
    """Decision of a rule by its name, instead of its own; `allow` switches a rule off."""
    error_share: float = Field(default=0.5, gt=0, le=1)
    """Share of rehearsals that must predict an error for `predicted_error` to object."""
    agreement: float = Field(default=0.6, ge=0, le=1)
    """Share of rehearsals that must predict the same, or `disagreement` objects."""
    limits: tuple[Limit, ...] = ()
    """Limits on predicted responses; one prediction beyond one of them suffices for an objection."""

    @field_validator("decisions")
    @classmethod
    def _known(cls, decisions: dict[str, Decision]) -> dict[str, Decision]:
        if unknown := sorted(set(decisions) - set(RULES)):
            raise ValueError(f"no rule {unknown[0]!r}: one of {', '.join(RULES)}")
        return decisions


@dataclass(frozen=True)
class Rehearsed:
    """A call with its predicted responses."""

    tool: str
    """Name of the tool."""
    predictions: Sequence[str | None]
    """Predicted responses, at least one; None for an illegible one."""

    @property
    def values(self) -> list[Any]:
        """The legible predictions, decoded; one that is no JSON stays text."""
        return [_decoded(text) for text in self.predictions if text is not None]

    def commonest(self) -> tuple[Any, int]:
        """The commonest legible prediction and how often it occurs; order of keys does not count."""
        counts = Counter(json.dumps(value, sort_keys=True) for value in self.values)
        text, count = counts.most_common(1)[0] if counts else ("null", 0)
        return json.loads(text), count

    def share(self, count: int) -> str:
        """A number of rehearsals beside their total, for people."""
        return f"{count} of {len(self.predictions)} rehearsals"


def predicted_error(case: Rehearsed, settings: RuleSettings) -> str | None:
    """The environment is expected to refuse the call, or to fail in it."""
    errors = [value for value in case.values if is_error(value)]
    if not errors or len(errors) < settings.error_share * len(case.predictions):
        return None
    return f"{case.share(len(errors))} predict an error, as in {_short(errors[0])}"


def beyond_limits(case: Rehearsed, settings: RuleSettings) -> str | None:
    """A predicted field is outside its limits, or no prediction shows it, so that nothing is known of it."""
    values = [value for value in case.values if not is_error(value)]
    for limit in settings.limits:
        if not fnmatchcase(case.tool, limit.tool) or not values:
            continue
        found = [list(_at(value, limit.field.split("."))) for value in values]
        faults = [fault for fields in found if (fault := _first_fault(limit, fields))]
        if faults:
            return f"{case.share(len(faults))} predict that {faults[0]}"
        if not any(found):
            return f"no rehearsal shows {limit.field}, so its limit cannot be checked"
    return None


def disagreement(case: Rehearsed, settings: RuleSettings) -> str | None:
    """Rehearsals do not know what the call would do."""
    value, count = case.commonest()
    if count >= settings.agreement * len(case.predictions):
        return None
    return f"only {case.share(count)} agree, the most of them on {_short(value)}"


@dataclass(frozen=True)
class Rule:
    """A rule with its decision."""

    check: Callable[[Rehearsed, RuleSettings], str | None]
    """The reason to object, None for no objection."""
    decision: Decision
    """What follows from an objection, unless the settings say otherwise."""


RULES: dict[str, Rule] = {
    "predicted_error": Rule(predicted_error, "deny"),
    "limits": Rule(beyond_limits, "deny"),
    "disagreement": Rule(disagreement, "ask"),
}
"""All rules; among equally strict ones the first decides."""


def objection(case: Rehearsed, settings: RuleSettings) -> tuple[Decision, str, str] | None:
    """The strictest objection to a call as decision, rule and reason; None when no rule objects."""
    found: tuple[Decision, str, str] | None = None
    for name, rule in RULES.items():
        decision = settings.decisions.get(name, rule.decision)
        stricter = STRICTNESS.index(decision) > STRICTNESS.index(found[0] if found else "allow")
        if stricter and (reason := rule.check(case, settings)):
            found = decision, name, reason
    return found


def is_error(value: Any) -> bool:
    """Whether a response reports an error: `{"error": …}`, or `isError` as in MCP results."""
    return isinstance(value, dict) and (
        value.get("error") not in (None, False) or value.get("isError") is True
    )


def _at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """All values at a path."""
    if not path:
        yield value
        return
    if isinstance(value, list):
        value = {str(position): item for position, item in enumerate(value)}
    if isinstance(value, dict):
        for key in value if path[0] == "*" else [path[0]]:
            if key in value:
                yield from _at(value[key], path[1:])


def _first_fault(limit: Limit, values: Sequence[Any]) -> str | None:
    return next((fault for value in values if (fault := limit.fault(value))), None)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _equal(value: Any, fine: Any) -> bool:
    """Equality in which True is not 1."""
    return isinstance(value, bool) == isinstance(fine, bool) and value == fine


def _short(value: Any) -> str:
    text = compact(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
