"""Episodes of tasks without a world, and graders to answer a judge's questions."""

import json
from collections.abc import Sequence
from typing import Any

from envace.chat import CompactTemplate
from envace.engines import Completion
from envace.rollout.episode import Episode, parse_episode
from envace.trajectory import ChecklistItem, Message, Task, Tool, ToolCall

FIND = Tool(
    name="find",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)


def task(*checklist: ChecklistItem, turns: int = 1) -> Task:
    """A task of no world; all turns but the last are part of the prompt, each answered `noted`."""
    messages: list[Message] = []
    for turn in range(turns):
        messages += [Message(role="assistant", content="noted")] if turn else []
        messages.append(Message(role="user", content=f"request {turn}"))
    return Task(
        id="t", world="elsewhere", template="", seed=0, tools=(FIND,), messages=tuple(messages),
        checklist=checklist,
    )  # fmt: skip


def episode(
    template: CompactTemplate, task: Task, steps: Sequence[tuple[ToolCall, str]], answer: str | None
) -> Episode:
    """An episode that made these calls, got these responses and gave this answer."""
    turns: list[Message] = []
    for call, response in steps:
        turns.append(Message(role="assistant", tool_calls=(call,)))
        turns.append(Message(role="tool", name=call.name, content=response))
    turns += [Message(role="assistant", content=answer)] if answer is not None else []
    prompt = template.render(task.messages, task.tools).ids
    ids = template.render([*task.messages, *turns], task.tools).ids[len(prompt) :]
    return parse_episode(template, task, (), prompt, Completion(ids, [-1.0] * len(ids), True))


def find(**arguments: Any) -> ToolCall:
    return ToolCall(name="find", arguments=arguments)


def grades(*passed: bool) -> str:
    """A judge's answer: the conditions in order."""
    return json.dumps({str(n): {"reason": "seen", "pass": held} for n, held in enumerate(passed, 1)})
