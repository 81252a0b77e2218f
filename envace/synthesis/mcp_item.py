"""One task for a tool server: what is drawn, and how an endpoint writes its conversation step by step."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from envace.files import digest
from envace.filters.calls import SchemaCache
from envace.imports.mcp_tools import ToolServer
from envace.synthesis.asking import Asker
from envace.synthesis.mcp_prompts import (
    REPLY_SCHEMA,
    RESPONSE_SCHEMA,
    arguments_question,
    plan_question,
    plan_schema,
    reply_question,
    response_question,
)
from envace.trajectory import ChecklistItem, Lineage, Message, Tool, ToolCall, Trajectory, compact

LONGEST = 6000
"""Characters of a rehearsed response at most."""
CALLS_WEIGHT = 0.5
"""Share of a turn's checklist that the calls have; the judge's conditions have the rest."""


@dataclass(frozen=True)
class Item:
    """A task to be written."""

    number: int
    """Position in the run."""
    server: ToolServer
    """The tool server."""
    line: int
    """Where it stands in its file."""
    tools: tuple[Tool, ...]
    """Tools on offer."""
    focus: tuple[str, ...]
    """Names of the tools that the task has to need."""
    turns: int
    """User turns."""


def draw(
    server: ToolServer,
    line: int,
    number: int,
    seed: int,
    most_turns: int,
    most_tools: int,
    schemas: SchemaCache,
) -> Item | None:
    """Draw a task; None where no tool of the server has a usable schema.

    Args:
        server: The tool server.
        line: Where it stands in its file.
        number: Position in the run.
        seed: Seed of the run.
        most_turns: User turns at most.
        most_tools: Tools on offer at most, those of the task among them.
        schemas: Compiled schemas.
    """
    rng = random.Random(f"mcp/{seed}/{number}")
    usable = [tool for tool in server.tools if not isinstance(schemas.compiled(tool.parameters), str)]
    if not usable:
        return None
    offered = rng.sample(usable, min(most_tools, len(usable)))
    focus = offered[: rng.randint(1, 3)]
    return Item(
        number=number,
        server=server,
        line=line,
        tools=tuple(tool for tool in usable if tool in offered),
        focus=tuple(tool.name for tool in focus),
        turns=rng.randint(1, most_turns),
    )


def write(item: Item, asker: Asker, seed: int) -> Trajectory:
    """Have a task written.

    Args:
        item: What was drawn.
        asker: Who writes.
        seed: Seed of the run.

    Raises:
        BadAnswerError: The endpoint did not write what was asked for.
        ChatError: It did not answer.
    """
    # Of 28 bits, since some servers take no more than 32.
    seeds = count(int(digest("mcp", seed, item.number)[:7], 16), 100)
    names = [tool.name for tool in item.tools]
    plan = asker.ask(
        plan_question(item.tools, item.focus, item.turns),
        plan_schema(names, item.turns),
        next(seeds),
        lambda value: _plan_problem(value, names),
    )
    tools = {tool.name: tool for tool in item.tools}
    messages: list[Message] = []
    checklist: list[ChecklistItem] = []
    for number, turn in enumerate(plan["turns"]):
        messages.append(Message(role="user", content=turn["user"]))
        for name in turn["tools"]:
            tool = tools[name]
            arguments = asker.ask(
                arguments_question(tool, messages), tool.parameters, next(seeds), strict=False
            )
            call = ToolCall(name=name, arguments=arguments, id=f"c{len(messages)}")
            response = asker.ask(
                response_question(item.server.server, tool, messages, call),
                tool.returns or RESPONSE_SCHEMA,
                next(seeds),
                _response_problem,
                strict=False,
            )
            messages.append(Message(role="assistant", tool_calls=(call,), author="simulator"))
            messages.append(_response(call, response))
        reply = asker.ask(reply_question(messages), REPLY_SCHEMA, next(seeds), _reply_problem)["reply"]
        messages.append(Message(role="assistant", content=reply, author="simulator"))
        checklist += turn_checklist(number, turn)
    id = f"mcp/{item.server.id}/{seed}/{item.number}"
    return Trajectory(
        id=id,
        source="mcp",
        world=f"mcp/{item.server.id}",
        tools=item.tools,
        messages=tuple(messages),
        seed=seed,
        checklist=tuple(checklist),
        lineage=Lineage(task_id=id, template=f"{item.turns} turns", origin=item.server.lineage.origin),
    )


def _response(call: ToolCall, response: Any) -> Message:
    return Message(
        role="tool", name=call.name, tool_call_id=call.id, content=compact(response), author="simulator"
    )


def turn_checklist(number: int, turn: Mapping[str, Any]) -> list[ChecklistItem]:
    """The conditions of a turn: each tool was called, and what a judge has to see; weights sum to 1.

    Args:
        number: The turn, from 0.
        turn: Its plan.
    """
    names = list(dict.fromkeys(turn["tools"]))
    whole = sum(condition["importance"] for condition in turn["conditions"])
    called = [
        ChecklistItem(
            id=f"{number}.call{at}", kind="call", turn=number, question=f"Was {name} called?",
            weight=CALLS_WEIGHT / len(names), focus_on="assistant.tool_calls",
            pass_condition=ToolCall(name=name).text(),
        )
        for at, name in enumerate(names)
    ]  # fmt: skip
    judged = [
        ChecklistItem(
            id=f"{number}.judge{at}", turn=number, question=condition["question"],
            weight=(1 - CALLS_WEIGHT) * condition["importance"] / whole,
            pass_condition=condition["passes_when"],
        )
        for at, condition in enumerate(turn["conditions"])
    ]  # fmt: skip
    return [*called, *judged]


def _plan_problem(plan: Mapping[str, Any], names: Sequence[str]) -> str:
    for turn in plan["turns"]:
        if not turn["user"].strip():
            return "an empty user turn"
        # A plain word may stand in what a person says; a technical name gives the tool away.
        for name in names:
            if re.search(r"[_\-.]|[a-z][A-Z]", name) and name in turn["user"]:
                return f"the user names the tool {name}"
    return ""


def _response_problem(response: Any) -> str:
    length = len(compact(response))
    return f"a response of {length} characters, {LONGEST} at most" if length > LONGEST else ""


def _reply_problem(value: Mapping[str, Any]) -> str:
    return "" if value["reply"].strip() else "an empty reply"
