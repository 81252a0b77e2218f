"""Turns of a kind of their own for calls and responses, joined into OpenAI's.

ShareGPT-like sets write a call as a turn (`function_call`, `tool_call`) and the response as another
(`observation`, `tool_response`); Hermes writes both inside the text, in tags. Here a call belongs to the
assistant turn that makes it, and a response is a tool turn.
"""

import re
from collections.abc import Iterable
from typing import Any

from envace.imports.decode import decoded, unreadable

_ROLES = {
    "system": "system",
    "human": "user", "user": "user",
    "gpt": "assistant", "assistant": "assistant", "model": "assistant", "chatgpt": "assistant",
    "function_call": "call", "function-call": "call", "tool_call": "call",
    "observation": "tool", "tool": "tool", "tool_response": "tool", "function_response": "tool",
    "function-response": "tool", "function": "tool",
}  # fmt: skip
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)
_TOOLS = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)

Turn = tuple[Any, Any, Any]
"""Role, text and tool name as a data set gives them; the name may be None."""


def joined(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """The turns as messages of OpenAI's shape.

    Raises:
        ValueError: An unknown role, or a call that cannot be read.
    """
    messages: list[dict[str, Any]] = []
    for number, (role, text, name) in enumerate(turns):
        what = f"turn {number}"
        kind = _ROLES.get(str(role))
        if kind is None:
            raise unreadable(f"{what}: role {role!r}, not one of {', '.join(_ROLES)}", "rename the role")
        if kind == "call":
            last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
            if last is None:
                last = {"role": "assistant", "content": "", "tool_calls": []}
                messages.append(last)
            last["tool_calls"] = last.get("tool_calls", []) + _calls(text, what)
        elif kind == "tool":
            texts = _RESPONSE.findall(text) if isinstance(text, str) else []
            messages += [{"role": "tool", "content": part, "name": name} for part in texts or [text]]
        elif kind == "assistant" and isinstance(text, str) and "<tool_call>" in text:
            calls = [call for part in _CALL.findall(text) for call in _calls(part, what)]
            messages.append({"role": kind, "content": _CALL.sub("", text).strip(), "tool_calls": calls})
        else:
            messages.append({"role": kind, "content": text})
    return messages


def _calls(text: Any, what: str) -> list[Any]:
    """The call, or list of calls, that a text holds as JSON or as a Python literal."""
    found = decoded(text, f"{what}: call", literals=True)
    return found if isinstance(found, list) else [found]


def listed_tools(messages: Iterable[dict[str, Any]]) -> list[Any]:
    """Tools that a system turn lists in `<tools>` tags: one JSON list, or one object a line."""
    found: list[Any] = []
    for message in messages:
        if message["role"] != "system" or not isinstance(message["content"], str):
            continue
        for text in (text.strip() for text in _TOOLS.findall(message["content"])):
            # The prompt also names the tags, as in "within <tools></tools> tags".
            parts = [text] if text.startswith("[") else [line for line in text.splitlines() if line.strip()]
            for part in parts:
                tools = decoded(part, "<tools>", literals=True)
                found += tools if isinstance(tools, list) else [tools]
    return found
