"""OpenAI chat JSON to our records and back.

Source of the format: the OpenAI API reference, "Create chat completion".
"""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envace.serve.backend import ChatReply, ChatRequest
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


class WireRequest(Lenient):
    """The body of a chat completion."""

    model: str | None = None
    messages: list[WireMessage] = Field(min_length=1)
    tools: list[WireTool] | None = None
    tool_choice: Any = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    n: int | None = Field(default=None, ge=1, le=128)
    stream: bool | None = None


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


def request_from_wire(wire: WireRequest, default_model: str) -> ChatRequest:
    """A request body as a record; absent fields take OpenAI's defaults."""
    return ChatRequest(
        model=wire.model or default_model,
        messages=tuple(message_from_wire(message) for message in wire.messages),
        tools=() if wire.tool_choice == "none" else tuple(map(tool_from_wire, wire.tools or ())),
        temperature=1.0 if wire.temperature is None else wire.temperature,
        max_tokens=wire.max_completion_tokens or wire.max_tokens,
        seed=wire.seed,
        n=wire.n or 1,
    )


def reply_to_wire(reply: ChatReply, model: str, reply_id: str, created: int) -> dict[str, Any]:
    """A reply as a chat completion object.

    `usage.completion_tokens` counts the turns returned; private rehearsal is reported apart, under
    `completion_tokens_details.rehearsal_tokens`, and `total_tokens` holds both and the prompt.
    """
    choices = [
        {
            "index": index,
            "message": message_to_wire(message, f"{reply_id}_{index}"),
            "finish_reason": reason,
            "logprobs": None,
        }
        for index, (message, reason) in enumerate(zip(reply.messages, reply.finish_reasons, strict=True))
    ]
    usage = {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens + reply.rehearsal_tokens,
        "completion_tokens_details": {"rehearsal_tokens": reply.rehearsal_tokens},
    }
    return {
        "id": f"chatcmpl-{reply_id}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": choices,
        "usage": usage,
    }
