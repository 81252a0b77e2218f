"""Strategies behind the served policy: what a request gets, and what it costs in private."""

from typing import Any

from envace.rehearsal.base import Policy, Settings, conversations
from envace.rehearsal.strategies import strategy
from envace.serve import ChatRequest
from envace.serve.policy_backend import PolicyBackend
from envace.trajectory import ToolCall
from envace.worlds.tasks import pose, rebuild

TASK = pose("courier", "ship", 0, "train")
A, B, *_ = (ToolCall(name="ship", arguments=a) for a in rebuild(TASK)[0].commit_arguments())


def served(template: Any, engine: Any, name: str, n: int = 1) -> Any:
    backend = PolicyBackend("p", engine, template, 4096, 3, 64, strategies=("none", name))
    return backend.reply(
        ChatRequest(model=f"p@{name}", messages=TASK.messages, tools=TASK.tools, n=n, seed=7)
    )


def test_a_vote_is_what_is_answered(template: Any, scripted: Any) -> None:
    turns = [[*template.encode(call.text()), template.call_end] for call in (A, B, B)]
    engine = scripted(lambda prompt, sample: turns[sample])
    reply = served(template, engine, "best_of_n", n=2)
    assert [message.tool_calls[0].arguments for message in reply.messages] == [B.arguments] * 2
    assert reply.rehearsal_tokens == len(turns[0]) + len(turns[1])
    assert engine.generated_tokens == sum(map(len, turns))


def test_a_request_is_prepared_as_a_conversation_is(template: Any, scripted: Any) -> None:
    response = template.response_ids('{"total":3}', False)

    def script(prompt: list[int], sample: int) -> list[int]:
        return [*template.encode((A, B)[sample % 2].text()), template.call_end, *response]

    (prepared,) = strategy("parallel", Settings(budget=3)).prepare(
        Policy(scripted(script), template), conversations([TASK]), 7
    )
    engine = scripted(script)
    reply = served(template, engine, "parallel")
    assert reply.rehearsal_tokens == prepared.tokens
    assert engine.seen[-1] == template.render((*TASK.messages, *prepared.notes), TASK.tools).ids
