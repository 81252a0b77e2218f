"""What all formats share: turns and tools of OpenAI's shape, decoded, paired and made a trajectory."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from envace.imports.decode import as_list, as_object, unreadable
from envace.imports.schema import normalize_all, original_name
from envace.trajectory import ChecklistItem, Message, ToolCall, Trajectory
from envace.trajectory.records import Lineage, Record

RecordT = TypeVar("RecordT", bound=Record)

STOP = "###STOP###"
"""What the simulated users of τ-bench and its kin say when they are done; it asks nothing."""

_ROLES = {"developer": "system", "function": "tool"}
_KNOWN = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Imported(Generic[RecordT]):
    """One record as it was understood."""

    record: RecordT
    """The trajectory, or the tool server."""
    repairs: tuple[str, ...] = ()
    """Kinds of repairs made to its tools (`imports.schema.REPAIRS`), one entry a repair."""


@dataclass(frozen=True)
class Origin:
    """Where a record stands."""

    format: str
    """Import format, kept as the trajectory's source."""
    default_id: str
    """Id of a record that brings none."""
    place: str
    """File and line or row, kept in the lineage."""


def trajectory(
    origin: Origin,
    messages: Iterable[Any],
    tools: Sequence[Any],
    checklist: tuple[ChecklistItem, ...] = (),
    id: Any = None,
) -> Imported[Trajectory]:
    """Turns and tools of OpenAI's shape as a trajectory.

    Args:
        origin: Where the record stands.
        messages: Turns; calls and arguments may be JSON in strings, tool turns may lack `tool_call_id`.
        tools: Tools of any published shape; they are normalized, and calls follow a changed name.
        checklist: Conditions of success.
        id: The record's own id, if it has one.

    Raises:
        ValueError: What is wrong with the record, and the mend, in one line.
    """
    turns = [_message(message, number) for number, message in enumerate(messages)]
    if not turns:
        raise unreadable("messages: absent or empty", "leave the record out")
    offered, repairs = normalize_all(tools)
    if turns[-1].role == "user" and turns[-1].content.strip() == STOP and len(turns) > 1:
        turns, repairs = turns[:-1], (*repairs, "stop_mark")
    names = {original_name(tool): tool.name for tool in reversed(offered)}
    record = Trajectory(
        id=str(origin.default_id if id in (None, "") else id),
        source=origin.format,
        tools=offered,
        messages=tuple(_renamed(turn, names) for turn in _paired(turns)),
        checklist=checklist,
        lineage=Lineage(origin=origin.place),
    )
    return Imported(record, repairs)


def _message(value: Any, number: int) -> Message:
    what = f"messages[{number}]"
    message = as_object(value, what)
    role: Any = _ROLES.get(str(message.get("role")), message.get("role"))
    if role not in _KNOWN:
        raise unreadable(f"{what}: role {role!r}, not one of {', '.join(_KNOWN)}", "rename the role")
    content = _content(message.get("content"), what)
    reasoning = message.get("reasoning_content")
    if reasoning:
        content = f"<think>\n{str(reasoning).strip()}\n</think>\n\n{content}"
    calls = as_list(message.get("tool_calls"), f"{what}.tool_calls")
    if not calls and message.get("function_call"):
        calls = [message["function_call"]]
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
    raise unreadable(f"{what}.content: only text can be imported", "leave out images and other parts")


def _call(value: Any, what: str) -> ToolCall:
    call = as_object(value, what)
    function = as_object(call.get("function", call), what)
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise unreadable(f"{what}: no name", "say which tool is called")
    arguments = function.get("arguments")
    return ToolCall(
        name=function["name"],
        arguments=as_object("{}" if arguments in (None, "") else arguments, f"{what}.arguments", True),
        id=str(call.get("id") or ""),
    )


def _paired(messages: Iterable[Message]) -> Iterable[Message]:
    """Name the call that a tool turn answers where the recording leaves it to the order."""
    waiting: deque[ToolCall] = deque()
    for message in messages:
        if message.role == "tool" and waiting:
            call = waiting.popleft()
            message = message.model_copy(
                update={"tool_call_id": message.tool_call_id or call.id, "name": message.name or call.name}
            )
        elif message.role != "tool":
            waiting = deque(message.tool_calls)
        yield message


def _renamed(message: Message, names: dict[str, str]) -> Message:
    """Calls and responses under the names that their tools were imported with."""
    calls = tuple(
        call.model_copy(update={"name": names.get(call.name, call.name)}) for call in message.tool_calls
    )
    return message.model_copy(update={"tool_calls": calls, "name": names.get(message.name, message.name)})
