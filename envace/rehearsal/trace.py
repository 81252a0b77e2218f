"""The trace of a private rehearsal: everything imagined, the memory made of it, and what it cost."""

from typing import Literal

from pydantic import Field

from envace.trajectory.records import Message, Record, ToolCall

Purpose = Literal["act", "environment", "thought", "memory", "unread"]
"""What private tokens were for: calls and answers, predicted responses, thoughts in words, a memory
that the policy wrote itself, and tokens behind a fault that nobody reads."""


class Imagined(Record):
    """One rehearsed step."""

    call: ToolCall
    """The call imagined."""
    response: str | None = None
    """The response that the environment role predicted; None where none was wanted, or it was cut."""


class Branch(Record):
    """One rehearsal."""

    seen: str = ""
    """Private text in view of which it was written: the memory of former branches."""
    sampled: str = ""
    """What was written, markers spelled out."""
    steps: tuple[Imagined, ...] = ()
    """Calls with their predicted responses, in order."""
    answer: str | None = None
    """Final answer, where it came to one."""
    thought: str = ""
    """What the policy said about it in words, or instead of it."""


class Trace(Record):
    """One private rehearsal, whole."""

    strategy: str = "none"
    """Strategy with its budget and memory, as it was asked for."""
    branches: tuple[Branch, ...] = ()
    """Every rehearsal in order, malformed ones included."""
    memory: str = ""
    """The exact text shown to the act role; empty when it was shown nothing."""
    recommended: ToolCall | None = None
    """The call that a reader would commit who follows the memory's rule alone."""
    decided: Message | None = None
    """The act turn, where the strategy itself settled it."""
    tokens: dict[Purpose, int] = Field(default_factory=dict)
    """Tokens written in private, by purpose."""
    environment_calls: int = 0
    """Calls that any environment executed meanwhile, counted at the worlds."""
