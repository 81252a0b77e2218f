"""Rehearsed responses to held-out calls, beside the world's: what the quality check measures."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envace.chat import Template
from envace.chat.prompted import PromptedLayout, Situation, as_written, environment_prompt
from envace.engines import Engine, Sampling
from envace.rollout.sampling import with_markers
from envace.synthesis.worlds import random_call
from envace.trajectory import Message, Task, ToolCall, compact
from envace.worlds.tasks import rebuild, solve

RESPONSE_TOKENS = 80
"""Tokens at most in one predicted response."""


@dataclass(frozen=True)
class HeldOutCall:
    """One call in a known history, with the response the world gives."""

    task: Task
    """Task the call belongs to; on held-out names."""
    history: tuple[Message, ...]
    """Prompt and all earlier calls with true responses."""
    call: ToolCall
    """The call."""
    actual: str
    """The world's response, compact JSON."""


@dataclass(frozen=True)
class Prediction:
    """What the environment role wrote."""

    text: str
    """The response, without its end marker."""
    terminated: bool
    """The role ended it itself."""


def held_out_calls(tasks: Sequence[Task], seed: int) -> Iterator[HeldOutCall]:
    """The expert's calls of every task, and one random call in its start state.

    A commit-once task contributes each of its possible commits instead, from the start
    state: that is what a rehearsal asks for.
    """
    for task in tasks:
        world, _ = rebuild(task)
        tool = next((tool for tool in task.tools if tool.irreversible), None)
        if world.commit_once and tool is not None:
            for arguments in world.commit_arguments():
                call = ToolCall(name=tool.name, arguments=arguments)
                yield HeldOutCall(task, task.messages, call, compact(world.copy().call(call)))
            continue
        extra = random_call(world, random.Random(f"held-out/{seed}/{task.id}"), task.names)
        yield HeldOutCall(task, task.messages, extra, compact(world.copy().call(extra)))
        history = task.messages
        for step in solve(task)[0]:
            yield HeldOutCall(task, history, step.call, step.response)
            history = (
                *history,
                Message(role="assistant", tool_calls=(step.call,)),
                Message(role="tool", name=step.call.name, content=step.response, author="world"),
            )


def predict(
    engine: Engine, template: Template, calls: Sequence[HeldOutCall], layout: PromptedLayout | None = None
) -> list[Prediction]:
    """Greedy responses of the environment role, in order; without a layout, inline."""
    if layout is not None:
        return _predict_prompted(engine, template, calls, layout)
    prompts = [
        template.render(
            (*item.history, Message(role="assistant", tool_calls=(item.call,))), item.task.tools
        ).ids
        for item in calls
    ]
    sampling = with_markers(Sampling(0.0, RESPONSE_TOKENS), template, template.environment_stop_ids)
    return [
        Prediction(template.response_text(group[0].ids), template.ends_response(group[0].ids[-1], False))
        for group in engine.generate(prompts, sampling)
    ]


def _predict_prompted(
    engine: Engine, template: Template, calls: Sequence[HeldOutCall], layout: PromptedLayout
) -> list[Prediction]:
    prompts = []
    for item in calls:
        caller = as_written(template, Message(role="assistant", tool_calls=(item.call,)))
        situation = Situation(item.task.tools, item.history, caller, item.call)
        prompts.append(environment_prompt(template, layout, situation))
    sampling = with_markers(Sampling(0.0, RESPONSE_TOKENS), template, template.act_stop_ids)
    return [
        Prediction(template.parse_act(group[0].ids).content, template.is_answer(group[0].ids))
        for group in engine.generate(prompts, sampling)
    ]
