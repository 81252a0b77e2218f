"""What the guard says about a call."""

from typing import Any, Literal

from envace.trajectory.records import Record, ToolCall

Decision = Literal["allow", "ask", "deny"]

STRICTNESS: tuple[Decision, ...] = ("allow", "ask", "deny")
"""Decisions, the strictest last."""

PASSED = "passed"
"""Rule of a verdict that no rule objected to."""
UNREHEARSED = "unrehearsed"
"""Rule of a verdict on a call that could not be rehearsed."""


class Verdict(Record):
    """The decision on one call, with everything it rests on."""

    decision: Decision
    """Let it through, ask a person first, or stop it."""
    rule: str
    """The rule that decided: a name in `envace.guard.rules.RULES`, `judge`, `passed` or `unrehearsed`."""
    reason: str
    """Why, in one line."""
    predictions: tuple[str | None, ...] = ()
    """The rehearsed responses; None for one that was cut or illegible."""
    tokens: int = 0
    """Tokens written to rehearse, those of a judge not among them."""

    def entry(self, call: ToolCall) -> dict[str, Any]:
        """The verdict on a call as plain JSON values."""
        return {"tool": call.name, "arguments": call.arguments, **self.model_dump(mode="json")}
