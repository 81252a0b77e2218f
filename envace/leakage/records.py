"""What is compared with the training data, and what a comparison found."""

from typing import Any, Literal

from pydantic import Field

from envace.trajectory.records import Record

Kind = Literal["leak", "hint", "same_domain"]
"""`leak` counts against the data and is removed; the others are only reported."""


class EvalItem(Record):
    """One item of an evaluation set: one line of an items file."""

    benchmark: str
    """Name of the set."""
    id: str
    """Unique within the set."""
    split: str = ""
    """Split or category."""
    text: str
    """What the user says: all turns joined by newlines."""
    tools: tuple[str, ...] = ()
    """Names of the tools on offer."""
    schemas: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Parameter names by tool."""
    json_schemas: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """JSON schema of the arguments by tool, where they are known whole."""
    gold_calls: str = ""
    """The reference calls as `canonical_calls` writes them; empty where there are none."""


class Match(Record):
    """An item, the training trajectory closest to it under one method, and where they agree."""

    method: str
    """Name in the registry of methods."""
    kind: Kind
    """Whether it counts."""
    benchmark: str
    """The item's set."""
    item_id: str
    """The item."""
    train_id: str
    """The closest trajectory; the first of several equals."""
    others: int
    """Further trajectories that match the same item."""
    score: float
    """Covered share of the item's tokens (n-gram methods), Jaccard (minhash), 1 for equality,
    share of the item's tools (schema)."""
    item_text: str
    """The item's text."""
    train_text: str
    """The trajectory's user turns."""
    item_span: tuple[int, int] | None = None
    """Token range, end exclusive, of the longest common run in the item; None for methods
    that do not compare text."""
    train_span: tuple[int, int] | None = None
    """The same run's token range in the training text."""
    span_text: str = ""
    """That run as it stands in the training text."""
    detail: str = ""
    """What agreed, for methods that do not compare tokens."""


class BenchmarkRow(Record):
    """One line of the table: an evaluation set and how many of its items were found."""

    benchmark: str
    """Name of the set."""
    items: int
    """Items compared."""
    matched: dict[str, int]
    """Items found, by method."""
    leaked: int
    """Items found by any method of kind `leak`."""
    contaminated: bool
    """True when more than the allowed share of the items leaked."""
