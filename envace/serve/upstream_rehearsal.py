"""Private rehearsal over a chat server: its model plays both roles, each in a conversation of its own.

Only `parallel` can be told in whole chats: strategies that sample tokens, let one role write on where
the other ended, or vote need the policy in process.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from envace.chat.compact import act_text
from envace.chat.prompted import PromptedLayout, Situation, whole_conversation
from envace.engines.openai_wire import BadReply, Reply, messages_to_wire, read_reply
from envace.errors import EnvaceError
from envace.rehearsal.base import Settings
from envace.rehearsal.memory import Rehearsed, memory_message
from envace.rehearsal.none import NoRehearsal
from envace.rehearsal.parallel import Parallel
from envace.rehearsal.plans import plans_text
from envace.rehearsal.strategies import Named, strategy
from envace.rehearsal.trace import Branch, Imagined, Purpose, Trace
from envace.rollout.remote import evened
from envace.serve.errors import RequestError
from envace.serve.limits import MOST_BUDGET
from envace.serve.openai_format import WireRequest, request_from_wire
from envace.trajectory import Message, Tool
from envace.trajectory.jsonl import describe

OFFERED = ("parallel",)
"""What is offered by name."""
RESPONSE_TOKENS = 512
"""Tokens at most of one predicted response."""
MEMORY_LETTERS = 4096
"""Length of the memory at most; its last lines leave first."""
OF_THE_ANSWER = ("stream", "stream_options", "n", "logprobs", "top_logprobs")
"""Fields that are about the answer's form; a rehearsal goes without."""

Fields = dict[str, Any]
Ask = Callable[[Fields], Awaitable[bytes]]
"""Gets a chat completion for a body."""


@dataclass(frozen=True)
class Prepared:
    """A request after its rehearsal."""

    fields: Fields = field(default_factory=dict)
    """Its body, the memory behind the conversation."""
    trace: Trace | None = None
    """What was rehearsed; None when nothing was asked for."""
    tokens: int = 0
    """Tokens written in private."""


async def prepare(name: str, fields: Fields, branches: int, ask: Ask) -> Prepared:
    """Rehearse what a request asks.

    Args:
        name: Strategy, as in `parallel-4` or `parallel-4+plans`.
        fields: The request's body, without our own fields.
        branches: Budget where the name says none.
        ask: The server that plays both roles.

    Raises:
        RequestError: It cannot be rehearsed so, or the server failed.
    """
    chosen = read_strategy(name, branches)
    if isinstance(chosen.inner, NoRehearsal):
        return Prepared(fields, Trace())
    try:
        request = request_from_wire(WireRequest.model_validate(fields), "")
    except ValidationError as error:
        raise RequestError(f"in rehearsal: {describe(error)}") from error
    number = chosen.budget if request.tools else 0
    rehearsed = await _all([_branch(fields, request.messages, request.tools, k, ask) for k in range(number)])
    found, tokens = [branch for branch, _ in rehearsed], Counter[Purpose]()
    for _, spent in rehearsed:
        tokens += spent
    memory = _memory(chosen.inner.settings.memory, found, request.tools)  # type: ignore[attr-defined]
    if memory:
        note = {"role": "system", "content": memory}
        fields = fields | {"messages": [*fields["messages"], note]}
    trace = Trace(strategy=chosen.name, branches=tuple(found), memory=memory, tokens=dict(tokens))
    return Prepared(fields, trace, tokens.total())


def read_strategy(name: str, branches: int) -> Named:
    """The strategy of that name, if a chat server can play it.

    Raises:
        RequestError: It cannot, or there is none.
    """
    try:
        chosen = strategy(name, Settings(budget=branches))
    except EnvaceError as error:
        raise RequestError(str(error), "unsupported_value") from error
    if isinstance(chosen.inner, NoRehearsal):
        return chosen
    if not isinstance(chosen.inner, Parallel) or chosen.inner.settings.memory == "policy":
        raise RequestError(f"{name} needs the policy in process: none or parallel", "unsupported_value")
    if chosen.budget > (most := max(MOST_BUDGET, branches)):
        raise RequestError(f"a rehearsal budget of {chosen.budget}: at most {most}")
    return chosen


async def _branch(
    fields: Fields, messages: Sequence[Message], tools: Sequence[Tool], number: int, ask: Ask
) -> tuple[Branch, Counter[Purpose]]:
    """One act turn, and the response predicted for each of its calls."""
    seed = (fields.get("seed") or 0) + number
    private = {key: value for key, value in fields.items() if key not in OF_THE_ANSWER}
    acted = await _reply(ask, private | {"temperature": 1.0, "seed": seed})
    turn = acted.message
    tokens: Counter[Purpose] = Counter({"act": acted.completion_tokens})
    steps: list[Imagined] = []
    shown = list(messages)
    for call in turn.tool_calls:
        situation = Situation(tools, shown, act_text(turn), call)
        conversation = messages_to_wire(whole_conversation(PromptedLayout(), situation))
        written = await _reply(
            ask,
            {
                **({"model": fields["model"]} if "model" in fields else {}),
                "messages": conversation,
                "temperature": 1.0,
                "max_tokens": RESPONSE_TOKENS,
                "seed": seed,
            },
        )
        tokens["environment"] += written.completion_tokens
        whole = written.finish_reason != "length"
        response = (evened(written.message.content) or None) if whole else None
        steps.append(Imagined(call=call, response=response))
        if response is None:
            break
        shown += [*([] if len(steps) > 1 else [turn]), Message(role="tool", name=call.name, content=response)]
    answer = None if turn.tool_calls else turn.content
    return Branch(sampled=act_text(turn), steps=tuple(steps), answer=answer), tokens


async def _reply(ask: Ask, fields: Fields) -> Reply:
    try:
        return read_reply(await ask(fields))
    except BadReply as error:
        raise RequestError(f"upstream, in rehearsal: {error}", "upstream_error", 502) from error


async def _all(works: Sequence[Any]) -> list[Any]:
    """Do everything at once; the first failure cancels the rest and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


def _memory(kind: str, branches: Sequence[Branch], tools: Sequence[Tool]) -> str:
    """The memory by a rule, cut to whole lines."""
    if kind == "plans":
        text = plans_text(branches, tools)
    else:
        rehearsed = [
            Rehearsed(step.call, step.response)
            for branch in branches
            for step in branch.steps
            if step.response is not None
        ]
        text = memory_message(rehearsed, tools).message.content
    if len(text) > MEMORY_LETTERS:
        text = text[:MEMORY_LETTERS].rpartition("\n")[0]
    return text
