"""OpenAI chat JSON to our records, and messages and tools back; replies are in `reply_format`.

Source of the format: the OpenAI API reference, "Create chat completion".
"""

import json
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from envace.serve.backend import ChatRequest
from envace.serve.errors import RequestError
from envace.trajectory.records import Message, Tool, ToolCall, compact

RAW_ARGUMENTS = "_raw"
"""Key under which arguments that are no JSON object are kept, so that nothing is lost."""


class Lenient(BaseModel):
    """Wire records: clients send fields that only other servers know (`store`, `strict`, …)."""

    model_config = ConfigDict(extra="ignore")


class WireFunction(Lenient):
    """The `function` of a tool call; arguments are a JSON string on the wire."""

    name: str
    arguments: str | dict[str, Any] = "{}"


class WireCall(Lenient):
    """One entry of `tool_calls`."""

    id: str = ""
    function: WireFunction


class WirePart(Lenient):
    """One part of a content list; only text is understood."""

    text: str


class WireMessage(Lenient):
    """One message; `developer` is OpenAI's newer word for system."""

    role: str
    content: str | list[WirePart] | None = None
    tool_calls: list[WireCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class WireToolFunction(Lenient):
    """The `function` of an offered tool."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class WireTool(Lenient):
    """One entry of `tools`."""

    function: WireToolFunction


class WireRehearsal(Lenient):
    """Our own field `rehearsal` of a request."""

    strategy: str = ""
    trace: bool = False


class WireStreamOptions(Lenient):
    """The field `stream_options`."""

    include_usage: bool = False


class WireRequest(Lenient):
    """The body of a chat completion."""

    model: str | None = None
    messages: list[WireMessage] = Field(min_length=1)
    tools: list[WireTool] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: Annotated[str, Field(min_length=1)] | list[Annotated[str, Field(min_length=1)]] | None = None
    seed: int | None = None
    n: int | None = Field(default=None, ge=1, le=128)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    stream: bool | None = None
    stream_options: WireStreamOptions | None = None
    rehearsal: WireRehearsal | None = None


def decode_arguments(text: str | dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call as an object; text that is no JSON object goes whole under `_raw`."""
    if isinstance(text, dict):
        return text
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {RAW_ARGUMENTS: text}
    return value if isinstance(value, dict) else {RAW_ARGUMENTS: text}


def encode_arguments(arguments: dict[str, Any]) -> str:
    """Inverse of `decode_arguments`: malformed text comes back as it was written."""
    if arguments.keys() == {RAW_ARGUMENTS} and isinstance(arguments[RAW_ARGUMENTS], str):
        return arguments[RAW_ARGUMENTS]
    return compact(arguments)


def message_from_wire(wire: WireMessage) -> Message:
    """One message as a record; content parts are joined by newlines.

    Raises:
        pydantic.ValidationError: when the role is unknown.
    """
    content = wire.content or ""
    if isinstance(content, list):
        content = "\n".join(part.text for part in content)
    calls = tuple(
        ToolCall(name=c.function.name, arguments=decode_arguments(c.function.arguments), id=c.id)
        for c in wire.tool_calls or ()
    )
    fields = {
        "role": "system" if wire.role == "developer" else wire.role,
        "content": content,
        "tool_calls": calls,
        "tool_call_id": wire.tool_call_id or "",
        "name": wire.name or "",
    }
    return Message.model_validate(fields)


def message_to_wire(message: Message, turn_id: str = "turn") -> dict[str, Any]:
    """One message as OpenAI JSON; calls without an id get `call_<turn_id>_<index>`."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [
            {
                "id": call.id or f"call_{turn_id}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": encode_arguments(call.arguments)},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    if message.name:
        wire["name"] = message.name
    return wire


def tool_from_wire(wire: WireTool) -> Tool:
    """An offered tool as a record; absent parameters mean "takes none"."""
    fields = wire.function.model_dump(exclude_none=True)
    return Tool.model_validate(fields)


def tool_to_wire(tool: Tool) -> dict[str, Any]:
    """A tool as an entry of OpenAI's `tools`."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def forced_tool(choice: Any, names: Collection[str]) -> str | None:
    """What `tool_choice` forces: one of `names`, any when empty, None for nothing.

    Raises:
        RequestError: It is no choice, or there is no such tool.
    """
    if choice in (None, "auto", "none"):
        return None
    wanted = ""
    if choice != "required":
        function = choice.get("function") if isinstance(choice, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not name:
            raise RequestError(
                "tool_choice must be auto, none, required or name a function", "unsupported_value"
            )
        wanted = name
    if not names or (wanted and wanted not in names):
        raise RequestError(f"tool_choice asks for {wanted or 'a call'}, tools do not offer it")
    return wanted


def request_from_wire(wire: WireRequest, default_model: str) -> ChatRequest:
    """A request body as a record; absent fields take OpenAI's defaults.

    Raises:
        pydantic.ValidationError: A message or tool is not valid.
        RequestError: Fields contradict one another.
    """
    tools = () if wire.tool_choice == "none" else tuple(map(tool_from_wire, wire.tools or ()))
    if wire.top_logprobs is not None and not wire.logprobs:
        raise RequestError("top_logprobs: needs logprobs=true")
    return ChatRequest(
        model=wire.model or default_model,
        messages=tuple(message_from_wire(message) for message in wire.messages),
        tools=tools,
        forced=forced_tool(wire.tool_choice, {tool.name for tool in tools}),
        parallel=wire.parallel_tool_calls is not False,
        temperature=1.0 if wire.temperature is None else wire.temperature,
        top_p=wire.top_p or 1.0,
        max_tokens=wire.max_completion_tokens or wire.max_tokens,
        stop=(wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ()),
        seed=wire.seed,
        n=wire.n or 1,
        alternatives=(wire.top_logprobs or 0) if wire.logprobs else None,
        strategy=wire.rehearsal.strategy if wire.rehearsal else "",
    )
