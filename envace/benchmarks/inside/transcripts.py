"""What two harnesses keep of a conversation; runs inside their environments."""

from typing import Any


def transcript(messages: list[Any]) -> list[dict[str, Any]]:
    """A conversation without ids and times, which differ from run to run."""
    rows = []
    for message in messages:
        row: dict[str, Any] = {"role": message.role, "content": message.content or ""}
        if getattr(message, "tool_calls", None):
            row["calls"] = [{"name": c.name, "arguments": c.arguments} for c in message.tool_calls]
        rows.append(row)
    return rows
