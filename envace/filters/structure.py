"""Rules on the shape of a conversation: role order, call and response pairing, names, emptiness, tags.

Each rule takes a trajectory and returns the reason for refusing it, or None.
"""

import re
from collections import Counter, deque

from envace.trajectory import Message, ToolCall, Trajectory
from envace.trajectory.markup import MARKUP

_FOLLOWERS = {
    "start": {"system", "user"},
    "system": {"user"},
    "user": {"assistant"},
    "assistant": {"user", "tool"},
    "tool": {"tool", "assistant"},
}
_LEADING_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_THINK_TAG = re.compile(r"</?think\b", re.IGNORECASE)


def roles(trajectory: Trajectory) -> str | None:
    """Refuse an order other than system?, user, then assistant and tool turns, answered at the end."""
    previous = "start"
    for number, message in enumerate(trajectory.messages):
        if message.role == "system" and message.name == "memory":
            continue  # a private rehearsal memory may stand before any turn
        if message.role not in _FOLLOWERS[previous]:
            return f"message {number}: {message.role} turn after {previous}"
        previous = message.role
    if previous not in ("assistant", "tool"):
        return f"ends with {previous}: nothing was answered"
    return None


def pairing(trajectory: Trajectory) -> str | None:
    """Refuse unless every call has exactly one response, in the order of the calls."""
    waiting: deque[ToolCall] = deque()
    for number, message in enumerate(trajectory.messages):
        if message.role == "tool":
            if not waiting:
                return f"message {number}: a response to no call"
            call = waiting.popleft()
            if message.tool_call_id and call.id and message.tool_call_id != call.id:
                return f"message {number}: answers call {message.tool_call_id} where {call.id} is next"
            if message.name and message.name != call.name:
                return f"message {number}: response of {message.name} where {call.name} was called"
        elif waiting:
            return f"message {number}: {len(waiting)} call(s) before it have no response"
        if message.tool_calls and message.role != "assistant":
            return f"message {number}: calls in a {message.role} turn"
        waiting.extend(message.tool_calls)
    return f"ends with {len(waiting)} call(s) without a response" if waiting else None


def tool_names(trajectory: Trajectory) -> str | None:
    """Refuse two tools of one name: a call could mean either."""
    counts = Counter(tool.name for tool in trajectory.tools)
    twice = sorted(name for name, count in counts.items() if count > 1)
    return f"duplicate tool name {twice[0]}" if twice else None


def empty(trajectory: Trajectory) -> str | None:
    """Refuse a turn without any content; an assistant turn may hold calls instead of text."""
    for number, message in enumerate(trajectory.messages):
        if not visible(message).strip() and not message.tool_calls:
            return f"message {number}: empty {message.role} turn"
    return None


def think(trajectory: Trajectory) -> str | None:
    """Refuse think tags anywhere but in one closed block that opens an assistant turn."""
    for number, message in enumerate(trajectory.messages):
        if _THINK_TAG.search(visible(message)):
            return f"message {number}: think tag in the visible {message.role} text"
    return None


def markup(trajectory: Trajectory) -> str | None:
    """Refuse the marks of a chat template in an assistant turn: it swallowed a call, a response or a turn."""
    for number, message in enumerate(trajectory.messages):
        found = MARKUP.search(message.content) if message.role == "assistant" else None
        if found:
            return f"message {number}: {found.group()} in the assistant text"
    return None


def visible(message: Message) -> str:
    """The text of a turn without the thought that opens an assistant turn."""
    if message.role != "assistant":
        return message.content
    return _LEADING_THOUGHT.sub("", message.content, count=1)
