"""The words of the Hermes tool format: markers, the tool list, an assistant's turn as text.

Source: the chat template published with Qwen3; models trained on it expect it to the letter.
"""

import json
from collections.abc import Sequence
from typing import Any

from envace.trajectory import Message, Tool, ToolCall


class Mark(str):
    """A marker written by the template, told apart from the same text written by anybody else."""

    __slots__ = ()


START, STOP = Mark("<|im_start|>"), Mark("<|im_end|>")
CALL, CALL_END = Mark("<tool_call>"), Mark("</tool_call>")
RESPONSE, RESPONSE_END = Mark("<tool_response>"), Mark("</tool_response>")
THINK, THINK_END = Mark("<think>"), Mark("</think>")
EMPTY_THOUGHT = (THINK, "\n\n", THINK_END, "\n\n")
CALL_FORM = '\n{"name": <function-name>, "arguments": <args-json-object>}\n'
TOOLS_HEAD = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
TOOLS_TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within ",
    CALL, CALL_END, " XML tags:\n", CALL, CALL_FORM, CALL_END,
)  # fmt: skip


def system_parts(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[str, ...]:
    """The first turn: the system message and the tools on offer; empty without both."""
    own = messages[0].content if messages and messages[0].role == "system" else None
    if not tools:
        return () if own is None else (START, "system\n", own, STOP)
    above = "" if own is None else own + "\n\n"
    lines = "".join(f"\n{json.dumps(tool_json(tool), ensure_ascii=False)}" for tool in tools)
    return (START, "system\n", above + TOOLS_HEAD + lines, *TOOLS_TAIL, STOP)


def tool_json(tool: Tool) -> dict[str, Any]:
    """A tool as the format lists it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def act_parts(thought: str, content: str, calls: Sequence[ToolCall]) -> list[str]:
    """An assistant turn: thought, prose, then the calls, each on a line of its own."""
    parts = [THINK, f"\n{thought}\n", THINK_END, "\n\n"] if thought else []
    parts.append(content)
    for index, call in enumerate(calls):
        value = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
        parts += ["\n" if index or content else "", CALL, f"\n{value}\n", CALL_END]
    return [*parts, STOP]


def split_thought(text: str) -> tuple[str, str]:
    """The thought at the head of an assistant's text, and the rest."""
    head, closed, rest = text.rpartition(THINK_END)
    if not closed:
        return "", text
    return head.split(THINK)[-1].strip("\n"), rest.lstrip("\n")
