"""Conversations in the OpenAI chat format: `{"messages": [...], "tools": [...]}`, as most sets publish them.

Reads what is found in the wild: tools and calls as JSON strings, arguments as strings or
objects, tool turns without `tool_call_id`, `content` null or in text parts, reasoning in
`reasoning_content` or as a leading `<think>` block, and CM2's nested `checklists`.
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from envace.trajectory import ChecklistItem, Message, Tool, ToolCall, Trajectory
from envace.trajectory.records import Lineage, weights_sum_to_one

_ROLES = {"developer": "system", "function": "tool"}
_KNOWN = ("system", "user", "assistant", "tool")


def convert(value: Any, default_id: str, origin: str) -> Trajectory:
    """One record as a trajectory.

    Args:
        value: The decoded record.
        default_id: Id of a record that has neither `id` nor `uuid`.
        origin: File and line, kept in the lineage.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    if not isinstance(value, dict):
        raise ValueError(f"a record is an object, not {type(value).__name__}")
    messages = _list(value.get("messages"), "messages")
    if not messages:
        raise ValueError("messages: absent or empty")
    return Trajectory(
        id=str(value.get("id") or value.get("uuid") or default_id),
        source="openai_messages",
        tools=tuple(_tool(tool, number) for number, tool in enumerate(_list(value.get("tools"), "tools"))),
        messages=_paired(_message(message, number) for number, message in enumerate(messages)),
        checklist=_checklist(value.get("checklists")),
        lineage=Lineage(origin=origin),
    )


def _decoded(value: Any, what: str) -> Any:
    """The value itself, or what it says when it is JSON in a string."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except ValueError as error:
        raise ValueError(f"{what}: not JSON: {error}") from error


def _list(value: Any, what: str) -> list[Any]:
    found = _decoded(value, what)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ValueError(f"{what}: a list, not {type(found).__name__}")
    return found


def _object(value: Any, what: str) -> dict[str, Any]:
    found = _decoded(value, what)
    if not isinstance(found, dict):
        raise ValueError(f"{what}: an object, not {type(found).__name__}")
    return found


def _tool(value: Any, number: int) -> Tool:
    what = f"tools[{number}]"
    tool = _object(value, what)
    function = _object(tool.get("function", tool), what)
    if not isinstance(function.get("name"), str):
        raise ValueError(f"{what}: no name")
    schema = function.get("parameters") or function.get("inputSchema") or {"type": "object", "properties": {}}
    return Tool(
        name=function["name"],
        description=str(function.get("description") or ""),
        parameters=_object(schema, f"{what}.parameters"),
    )


def _message(value: Any, number: int) -> Message:
    what = f"messages[{number}]"
    message = _object(value, what)
    role: Any = _ROLES.get(str(message.get("role")), message.get("role"))
    if role not in _KNOWN:
        raise ValueError(f"{what}: role {role!r}, not one of {', '.join(_KNOWN)}")
    content = _content(message.get("content"), what)
    reasoning = message.get("reasoning_content")
    if reasoning:
        content = f"<think>\n{str(reasoning).strip()}\n</think>\n\n{content}"
    calls = _list(message.get("tool_calls"), f"{what}.tool_calls")
    return Message(
        role=role,
        content=content,
        tool_calls=tuple(_call(call, f"{what}.tool_calls[{place}]") for place, call in enumerate(calls)),
        tool_call_id=str(message.get("tool_call_id") or ""),
        name=str(message.get("name") or "") if role == "tool" else "",
        author="recorded" if role in ("assistant", "tool") else None,
    )


def _content(value: Any, what: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in value
    ):
        return "".join(str(part.get("text", "")) for part in value)
    raise ValueError(f"{what}.content: only text can be imported")


def _call(value: Any, what: str) -> ToolCall:
    call = _object(value, what)
    function = _object(call.get("function", call), what)
    if not isinstance(function.get("name"), str):
        raise ValueError(f"{what}: no name")
    arguments = function.get("arguments")
    return ToolCall(
        name=function["name"],
        arguments=_object("{}" if arguments in (None, "") else arguments, f"{what}.arguments"),
        id=str(call.get("id") or ""),
    )


def _paired(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Name the call that a tool turn answers where the recording leaves it to the order."""
    waiting: deque[ToolCall] = deque()
    paired = []
    for message in messages:
        if message.role == "tool" and waiting:
            call = waiting.popleft()
            message = message.model_copy(
                update={"tool_call_id": message.tool_call_id or call.id, "name": message.name or call.name}
            )
        elif message.role != "tool":
            waiting = deque(message.tool_calls)
        paired.append(message)
    return tuple(paired)


def _checklist(value: Any) -> tuple[ChecklistItem, ...]:
    """CM2's `[checklist][user turn][item]`: the first of several alternative checklists.

    Evidence, failure examples and dependences have no place in the records and are left out.
    """
    checklists = _list(value, "checklists")
    if not checklists:
        return ()
    items: list[ChecklistItem] = []
    for turn, entries in enumerate(_list(checklists[0], "checklists[0]")):
        for entry in _list(entries, f"checklists[0][{turn}]"):
            item = _object(entry, f"checklists[0][{turn}] item")
            items.append(
                ChecklistItem(
                    id=f"t{turn}.{item.get('id', len(items))}",
                    question=str(item.get("question", "")),
                    turn=turn,
                    weight=item.get("weight", 0.0),
                    focus_on=str(item.get("focus_on", "")),
                    pass_condition=str(item.get("pass_condition", "")),
                )
            )
    if not weights_sum_to_one(tuple(items)):
        raise ValueError("checklists: the weights of a turn do not sum to 1")
    return tuple(items)
