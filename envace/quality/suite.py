"""What rehearsed outputs must satisfy, as a list of requirements, each one Great Expectations check.

The suite is built in code, with core expectations only: a suite that is loaded from a file
drops, without a word, expectations whose custom classes were never imported.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from envace.quality.first_calls import FirstCall
from envace.quality.measures import MEASURES
from envace.quality.records import RehearsedOutput
from envace.trajectory.records import Record

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation
    from great_expectations.expectations.row_conditions import RowConditionType

CORE = {"is_error": False}
ERRORS = {"is_error": True}
DRIFT = "drift"


class Thresholds(Record):
    """What passes; a share below its threshold fails. The `gate` group of the parameters."""

    worlds: tuple[str, ...]
    """Gated worlds: agreement is required here. Elsewhere it is only reported, because a world
    whose rules are still to be learned cannot be predicted yet."""
    tools: dict[str, tuple[str, ...]]
    """Tools by world: every one must be covered, and a row with another tool fails."""
    agreement: float = Field(default=0.80, gt=0, le=1)
    """Share of exact agreement on core (non-error) responses of gated worlds: overall and per world."""
    tool_agreement: float = Field(default=0.80, gt=0, le=1)
    """The same per tool."""
    error_agreement: float = Field(default=0.50, gt=0, le=1)
    """The same on error responses of gated worlds, where there are any; they are learned last."""
    parses: float = Field(default=0.95, gt=0, le=1)
    """Share of responses that are a JSON object or list, all worlds."""
    terminated: float = Field(default=0.95, gt=0, le=1)
    """Share of responses the model ended itself, all worlds."""
    valid: float = Field(default=0.90, gt=0, le=1)
    """Share of responses that satisfy the declared response schema, per tool."""
    min_rows: int = Field(default=5, ge=1)
    """Core responses a tool needs, or its shares mean nothing."""
    measures: dict[str, float] = Field(default_factory=dict)
    """Share of a tool's responses that must keep a measure of `envace.quality.measures.MEASURES`, where
    it is not the registry's. Required of tools to which the measure applies at least `min_rows` times."""
    reported: tuple[str, ...] = ()
    """Measures, or `drift`, that are shown and never stop anything."""
    first_calls: float = Field(default=0.50, gt=0, le=1)
    """Share of first calls that the world carries out, per commit-once world."""
    drift: float = Field(default=0.25, gt=0)
    """Largest population stability index against the accepted run, where there is one."""

    @field_validator("measures", "reported")
    @classmethod
    def _known(cls, named: dict[str, float] | tuple[str, ...]) -> dict[str, float] | tuple[str, ...]:
        unknown = set(named) - MEASURES.keys() - {DRIFT}
        if unknown:
            raise ValueError(f"no measure {min(unknown)}: one of {', '.join(MEASURES)}")
        return named


@dataclass(frozen=True)
class Requirement:
    """One condition on one group of rows."""

    measure: str
    """What is measured: `agreement`, `parses`, `rows`, …"""
    group: str
    """Who it is measured on, for people: `agenda.move`, `agenda`, `all`."""
    where: dict[str, Any]
    """Column values that select the rows of the group; a tuple means any of these values."""
    required: float
    """Lowest share, or row count, that passes; for a drift the highest index."""
    column: str = ""
    """Column the share is taken over; empty for a row count."""
    gates: bool = True
    """False when it is only reported."""
    drifts: bool = False
    """The column holds one index, of which less is better."""

    @property
    def per_tool(self) -> bool:
        """True when the group is one tool: such failures are named first."""
        return "tool" in self.where

    def expectation(self, number: int) -> "Expectation":
        """The Great Expectations check; its result carries `number` back."""
        import great_expectations.expectations as expectations

        gxe: Any = expectations  # its exports are not marked as such for type checkers
        common: dict[str, Any] = {
            "row_condition": _condition(self.where),
            "meta": {"number": number},
            "notes": f"{self.group}: {self.measure} at {'most' if self.drifts else 'least'} {self.required:g}"
            + ("" if self.gates else " (reported only: it stops nothing)"),
            "severity": "critical" if self.gates else "info",
        }
        if self.drifts:
            return gxe.ExpectColumnMaxToBeBetween(column=self.column, max_value=self.required, **common)
        if not self.column:
            return gxe.ExpectTableRowCountToBeBetween(min_value=int(self.required), **common)
        share: dict[str, Any] = {"column": self.column, "mostly": self.required} | common
        if self.column == "predicted":
            return gxe.ExpectColumnValuesToMatchRegex(regex=r"\S", **share)
        return gxe.ExpectColumnValuesToBeInSet(value_set=[True], **share)

    def line(self, observed: float, n: int) -> str:
        """The failure in one line, e.g. `agenda.move: agreement 0.62 < 0.80 (n=61)`."""
        if not self.column:
            return f"{self.group}: {self.measure} {observed:.0f} < {self.required:.0f}"
        exact = Decimal(str(self.required))
        unit = min(Decimal(1).scaleb(int(exact.as_tuple().exponent)), Decimal("0.01"))
        # Rounded away from the threshold, so that a miss by a hair never reads "0.80 < 0.80".
        seen = Decimal(str(observed)).quantize(unit, ROUND_CEILING if self.drifts else ROUND_FLOOR)
        than = ">" if self.drifts else "<"
        return f"{self.group}: {self.measure} {seen} {than} {exact.quantize(unit)} (n={n})"


def requirements(
    rows: Sequence[RehearsedOutput],
    thresholds: Thresholds,
    drifts: Iterable[str] = (),
    first_calls: Sequence[FirstCall] = (),
) -> list[Requirement]:
    """All conditions on these rows, the same for equal thresholds and kinds of rows; one for each drift
    and each world of the first calls."""
    t = thresholds
    gated = {"world": t.worlds}
    names = [(world, tool) for world, tools in sorted(t.tools.items()) for tool in sorted(tools)]
    declared = {(row.world, row.tool) for row in rows if row.valid is not None}
    erring = any(row.is_error and row.world in t.worlds for row in rows)
    found = [
        Requirement("parses", "all", {}, t.parses, "parses"),
        Requirement("terminated", "all", {}, t.terminated, "terminated"),
        Requirement("non-empty", "all", {}, 1.0, "predicted"),
        Requirement("known tools", "all", {}, 1.0, "known"),
        Requirement("agreement", "gated worlds", gated | CORE, t.agreement, "agrees"),
    ]
    if erring:
        found.append(
            Requirement("error agreement", "gated worlds", gated | ERRORS, t.error_agreement, "agrees")
        )
    for world in t.worlds:
        found.append(Requirement("agreement", world, {"world": world} | CORE, t.agreement, "agrees"))
    for world, tool in names:
        where, group = {"world": world, "tool": tool}, f"{world}.{tool}"
        found.append(Requirement("core responses", group, where | CORE, t.min_rows))
        if (world, tool) in declared:
            found.append(Requirement("valid", group, where, t.valid, "valid"))
        if world in t.worlds:
            found.append(Requirement("agreement", group, where | CORE, t.tool_agreement, "agrees"))
    for world in sorted({item.world for item in first_calls}):
        found.append(Requirement("first calls accepted", world, {"world": world}, t.first_calls, "accepted"))
    return [*found, *_measured(rows, t), *(_drift(name, t) for name in drifts)]


def _measured(rows: Sequence[RehearsedOutput], t: Thresholds) -> list[Requirement]:
    """The measures of every tool, by tool."""
    counts = Counter((row.world, row.tool, name) for row in rows for name in row.checks)
    return [
        Requirement(
            name.replace("_", " "),
            f"{world}.{tool}",
            {"world": world, "tool": tool},
            t.measures.get(name, MEASURES[name].least),
            name,
            name not in t.reported,
        )
        for world, tool, name in sorted(counts)
        if counts[world, tool, name] >= t.min_rows
    ]


def _drift(name: str, t: Thresholds) -> Requirement:
    return Requirement(
        f"drift of {name} (PSI)", "all", {}, t.drift, f"{DRIFT} {name}", DRIFT not in t.reported, drifts=True
    )


def _condition(where: dict[str, Any]) -> "RowConditionType":
    """The row filter as a Great Expectations condition; None for all rows."""
    from great_expectations.expectations.row_conditions import AndCondition, Column

    conditions = [
        Column(name).is_in(value) if isinstance(value, tuple) else Column(name) == value
        for name, value in where.items()
    ]
    return AndCondition(conditions=conditions) if conditions else None
