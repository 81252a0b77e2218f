"""Chat completions on the wire: a conversation to send, a reply to read.

Source of the format: the OpenAI API reference, "Create chat completion".
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from pydantic import Field, ValidationError

from envace.serve.openai_format import Lenient, WireMessage, message_from_wire, message_to_wire, tool_to_wire
from envace.trajectory.jsonl import describe
from envace.trajectory.records import Message, Tool


class BadReply(Exception):  # noqa: N818 - an outcome a client retries, not a bug
    """The server answered, but not with what was asked for."""


@dataclass(frozen=True)
class Reply:
    """One answer."""

    message: Message
    """The assistant's turn."""
    finish_reason: str
    """Why it ended: `stop`, `length`, `tool_calls`, …"""
    prompt_tokens: int
    """Tokens read, as the server reports them."""
    completion_tokens: int
    """Tokens written, as the server reports them."""
    value: Any = None
    """The content decoded, where a schema was given, which it satisfies."""
    rehearsal_tokens: int = 0
    """Tokens rehearsed in private, as this project's own server reports them."""


class WireChoice(Lenient):
    """One entry of `choices`."""

    message: WireMessage
    finish_reason: str | None = None


class WireDetails(Lenient):
    """The `completion_tokens_details` of a usage."""

    rehearsal_tokens: int | None = None


class WireUsage(Lenient):
    """The `usage` of a completion."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    completion_tokens_details: WireDetails | None = None


class WireCompletion(Lenient):
    """A chat completion; more than the first choice is not asked for."""

    choices: list[WireChoice] = Field(min_length=1)
    usage: WireUsage = WireUsage()


def request_body(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    schema: dict[str, Any] | None,
    temperature: float,
    max_tokens: int | None,
    strict: bool = True,
) -> dict[str, Any]:
    """The body of a chat completion, without a seed; what is empty or None is left out."""
    body: dict[str, Any] = {
        "model": model,
        "messages": messages_to_wire(messages),
        "temperature": temperature,
    }
    if tools:
        body["tools"] = [tool_to_wire(tool) for tool in tools]
    if schema is not None:
        named = {"name": "reply", "schema": schema, "strict": strict}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    return body


def read_reply(content: bytes) -> Reply:
    """A reply, not decoded, from the body of a response.

    Raises:
        BadReply: It is no chat completion.
    """
    try:
        wire = WireCompletion.model_validate_json(content)
        message = message_from_wire(wire.choices[0].message)
    except ValidationError as error:
        raise BadReply(f"no chat completion: {describe(error)}") from error
    details = wire.usage.completion_tokens_details or WireDetails()
    return Reply(
        message=message,
        finish_reason=wire.choices[0].finish_reason or "",
        prompt_tokens=wire.usage.prompt_tokens,
        completion_tokens=wire.usage.completion_tokens,
        rehearsal_tokens=details.rehearsal_tokens or 0,
    )


def messages_to_wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """A conversation as OpenAI JSON; responses without a call id get those of the calls before them."""
    wire: list[dict[str, Any]] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        entry = message_to_wire(message, str(index))
        if message.tool_calls:
            waiting = [call["id"] for call in entry["tool_calls"]]
        elif message.role == "tool" and waiting:
            first = waiting.pop(0)
            entry.setdefault("tool_call_id", first)
        wire.append(entry)
    return wire


def decode(content: str, schema: dict[str, Any]) -> Any:
    """JSON content that satisfies `schema`; thoughts in front, up to `</think>`, are skipped.

    Raises:
        BadReply: It is no JSON, or does not satisfy the schema.
    """
    try:
        value = json.loads(content.rpartition("</think>")[2])
    except (ValueError, RecursionError) as error:
        raise BadReply(f"the content is no JSON: {describe(error)}") from error
    problem = next(Draft202012Validator(schema).iter_errors(value), None)
    if problem is not None:
        raise BadReply(f"the content does not fit the schema: {problem.message}")
    return value
