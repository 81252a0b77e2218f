"""A trajectory for human eyes: roles, calls, responses, authors and rewards, in color on a terminal."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from envace.errors import EnvaceError
from envace.trajectory.jsonl import iter_records
from envace.trajectory.records import Message, ToolCall, Trajectory

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "yellow"}
# Recorded text must not drive the reader's terminal: control characters become visible pictures.
_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_CONTROLS |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def find(path: Path | str, which: int | str) -> Trajectory:
    """The trajectory at an index (from 0) or with an id; an id wins over digits read as an index.

    Raises:
        EnvaceError: No such trajectory, or a bad line before it.
    """
    index = int(which) if str(which).isdecimal() else -1
    at_index = None
    count = 0
    for trajectory in iter_records(path, Trajectory):
        if trajectory.id == which:
            return trajectory
        if count == index:
            at_index = trajectory
            if isinstance(which, int):
                break
        count += 1
    if at_index is None:
        raise EnvaceError(f"{path}: no trajectory {which} among {count}", "give an id or an index from 0")
    return at_index


def show(path: Path | str, which: int | str, console: "Console") -> None:
    """Print one trajectory; colors appear only where the console is a terminal."""
    render(find(path, which), console)


def render(trajectory: Trajectory, console: "Console") -> None:
    """Print a trajectory turn by turn."""
    from rich.text import Text

    def line(text: str, style: str = "") -> None:
        # Text, not markup: square brackets in a conversation are no style tags.
        console.print(Text(printable(text), style=style), soft_wrap=True)

    facts = [trajectory.source, trajectory.world, trajectory.lineage.template, trajectory.lineage.origin]
    line(f"{trajectory.id}  ({', '.join(fact for fact in facts if fact)})", "bold")
    if trajectory.tools:
        line("tools: " + ", ".join(tool.name for tool in trajectory.tools), "dim")
    for message in trajectory.messages:
        line("")
        line(_heading(message), f"bold {_STYLES[message.role]}")
        if message.content:
            line(_pretty(message.content), _STYLES[message.role])
        for call in message.tool_calls:
            line(pretty_call(call), "magenta")
    if trajectory.reward:
        line("")
        line("reward: " + ", ".join(f"{name} {value:g}" for name, value in trajectory.reward.items()), "bold")
    for item in trajectory.checklist:
        line(f"  turn {item.turn}, weight {item.weight:g}: {item.question}", "dim")


def _heading(message: Message) -> str:
    marks = [message.name, f"by {message.author}" if message.author else ""]
    marks.append("" if message.trainable else "context only")
    known = ", ".join(mark for mark in marks if mark)
    return f"{message.role} ({known})" if known else message.role


def printable(text: str) -> str:
    """Text that cannot drive a terminal: control characters but newline and tab become pictures."""
    return text.translate(_CONTROLS)


def pretty_call(call: ToolCall) -> str:
    """A call as one line, `→ name(argument=value)`."""
    arguments = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items()
    )
    return f"→ {call.name}({arguments})"


def _pretty(content: str) -> str:
    """A JSON object or list indented when it is too long for a line; other text as it is."""
    if len(content) <= 100 or content[:1] not in "{[":
        return content
    try:
        return json.dumps(json.loads(content), indent=2, ensure_ascii=False)
    except ValueError:
        return content
