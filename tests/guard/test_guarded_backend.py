"""The guard in front of a chat backend, and its two rehearsers: the tiny policy and a chat endpoint."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scripted_server import completion, dead_url, serving

from envace.chat.prompted import CONTRACT
from envace.engines.hf import HFEngine
from envace.engines.openai import ChatClient
from envace.errors import EnvaceError
from envace.guard.backend import GuardedBackend
from envace.guard.guard import Guard
from envace.guard.judge import GuardJudge
from envace.guard.rehearsers import ChatRehearser, Pending, PolicyRehearser
from envace.guard.which import Lists
from envace.rehearsal.base import Policy
from envace.serve import ChatReply, ChatRequest
from envace.serve.backend import TokenLogprob
from envace.trajectory import Message, Tool, ToolCall
from envace.worlds.tasks import pose, solve

TOOLS = (Tool(name="look"), Tool(name="wipe", irreversible=True), Tool(name="drop_table"))
USER = Message(role="user", content="clean up")


class Writes:
    """A backend that writes the turns it was given."""

    def __init__(self, *turns: Message) -> None:
        self.turns = turns

    def models(self) -> list[str]:
        return ["writes"]

    def reply(self, request: ChatRequest) -> ChatReply:
        return ChatReply(
            messages=self.turns,
            finish_reasons=("tool_calls",) * len(self.turns),
            completion_tokens=3,
            rehearsal_tokens=2,
            logprobs=tuple(
                (TokenLogprob(token=str(number), logprob=-1.0),) for number in range(len(self.turns))
            ),
        )


def turn(*names: str, content: str = "") -> Message:
    calls = tuple(ToolCall(name=name, arguments={"at": "x"}, id=f"call_{name}") for name in names)
    return Message(role="assistant", content=content, tool_calls=calls)


def request(*messages: Message) -> ChatRequest:
    return ChatRequest(model="writes", messages=messages or (USER,), tools=TOOLS, n=1)


def guarded(url: str, *turns: Message, log: Path | None = None, **fields: Any) -> GuardedBackend:
    rehearser = ChatRehearser(ChatClient([url], "m", attempts=1))
    guard = Guard(rehearser, times=2, log=log, **fields)
    return GuardedBackend(Writes(*turns), guard, Lists(irreversible=("drop_*",)))


def test_turns_without_guarded_calls_pass_as_they_are_without_a_model_call() -> None:
    with serving(lambda body, number: "{}") as model:
        backend = guarded(model.url, turn("look", "look"), Message(role="assistant", content="done"))
        reply = backend.reply(request())
        assert reply.messages == backend.inner.reply(request()).messages
        assert reply.finish_reasons == ("tool_calls", "tool_calls") and reply.verdicts == ()
        assert reply.logprobs is not None and [turn[0].token for turn in reply.logprobs] == ["0", "1"]
        assert reply.rehearsal_tokens == 2 and model.bodies == [] and backend.models() == ["writes"]


def test_an_allowed_call_passes_with_its_verdict_and_its_cost() -> None:
    with serving(lambda body, number: '{"ok": true}') as model:
        reply = guarded(model.url, turn("look", "wipe")).reply(request())
    assert reply.messages == (turn("look", "wipe"),) and reply.finish_reasons == ("tool_calls",)
    assert [(v.decision, v.predictions) for v in reply.verdicts] == [("allow", ('{"ok":true}',) * 2)]
    assert (reply.completion_tokens, reply.rehearsal_tokens) == (3, 2 + 2 * 3)


@pytest.mark.parametrize("name", ["wipe", "drop_table", "invented"])
def test_a_turn_with_a_denied_call_is_kept_back_whole(name: str, tmp_path: Path) -> None:
    log = tmp_path / "guard.jsonl"
    with serving(lambda body, number: '{"error": "locked"}') as model:
        reply = guarded(model.url, turn("look", name, content="I will."), log=log).reply(request())
    (message,) = reply.messages
    assert not message.tool_calls and reply.finish_reasons == ("stop",)
    assert message.content.startswith(f'I will.\n\nThe guard stopped {name} {{"at":"x"}}: denied')
    assert (
        'rule predicted_error: 2 of 2 rehearsals predict an error, as in {"error":"locked"}'
        in message.content
    )
    assert reply.logprobs == ((),)
    assert json.loads(log.read_text())["decision"] == reply.verdicts[0].decision == "deny"


def test_consent_holds_for_the_very_call_asked_about_and_for_the_next_turn_only() -> None:
    with serving(lambda body, number: f'{{"left": {number}}}') as model:
        backend = guarded(model.url, turn("wipe"))
        asked = backend.reply(request()).messages[0]
        assert not asked.tool_calls and "rule disagreement" in asked.content
        (code,) = re.findall(r'answer "allow (\w{8})"', asked.content)
        yes = Message(role="user", content=f"Fine, allow {code}.")
        assert backend.reply(request(USER, asked, yes)).messages == (turn("wipe"),)
        # Neither a later message, nor the guard's own words, nor another call, nor another server.
        for history in ((USER, asked, yes, USER), (USER, asked)):
            again = backend.reply(request(*history)).messages[0]
            assert not again.tool_calls and code in again.content
        backend.inner = Writes(turn("drop_table"))
        assert not backend.reply(request(USER, asked, yes)).messages[0].tool_calls
        assert not guarded(model.url, turn("wipe")).reply(request(USER, asked, yes)).messages[0].tool_calls


def test_the_judge_hears_what_no_rule_objects_to_and_its_absence_is_a_question() -> None:
    grades = {"verdict": {"1": {"reason": "Nobody asked\nfor it.", "pass": False}}}
    with serving(lambda body, number: '{"left": 0}') as model:
        with serving(lambda body, number: json.dumps(grades["verdict"])) as judge:
            client = ChatClient([judge.url], "judge", attempts=1)
            backend = guarded(model.url, turn("wipe"), judge=GuardJudge(client), judge_decision="deny")
            (verdict,) = backend.reply(request()).verdicts
            assert (verdict.decision, verdict.rule) == ("deny", "judge")
            assert verdict.reason == "Nobody asked for it."
            shown = judge.bodies[0]["messages"][1]["content"]
            assert '"clean up"' in shown and "(turn 0)" in shown
            assert shown.count('{"turn":0,"role":"tool","content":"{\\"left\\":0}"}') == 2
            grades["verdict"]["1"]["pass"] = True
            assert backend.reply(request()).verdicts[0].rule == "passed"
        backend.guard.judge = GuardJudge(ChatClient([dead_url()], "judge", attempts=1))
        (verdict,) = backend.reply(request()).verdicts
        assert (verdict.decision, verdict.rule) == ("ask", "judge") and "no judgment" in verdict.reason
    with serving(lambda body, number: '{"error": 1}') as model, serving(lambda body, number: "") as judge:
        backend = guarded(model.url, turn("wipe"), judge=GuardJudge(ChatClient([judge.url], "judge")))
        assert backend.reply(request()).verdicts[0].rule == "predicted_error" and judge.bodies == []


def test_the_endpoint_is_prompted_once_a_prediction_with_a_seed_of_its_own() -> None:
    def script(body: dict[str, Any], number: int) -> Any:
        from fastapi.responses import JSONResponse

        cut = completion("{")
        cut["choices"][0]["finish_reason"] = "length"
        return JSONResponse(cut) if body["seed"] == 1 else '```json\n{"ok": 1}\n```'

    history = (USER, turn("look"), Message(role="tool", name="look", content='{"rows":3}'))
    with serving(script) as model, closing(ChatClient([model.url], "m")) as client:
        rehearsal = ChatRehearser(client, max_tokens=9).rehearse(
            Pending(turn("wipe").tool_calls[0], TOOLS, history), 3
        )
    assert rehearsal.predictions == ('{"ok":1}', None, '{"ok":1}') and rehearsal.tokens == 9
    assert sorted(body["seed"] for body in model.bodies) == [0, 1, 2]
    system, user = (message["content"] for message in model.bodies[0]["messages"])
    assert system == CONTRACT and model.bodies[0]["max_tokens"] == 9
    assert user.endswith('# call\n{"name":"wipe","arguments":{"at":"x"}}') and 'tool: {"rows":3}' in user


def test_an_endpoint_that_is_not_there_makes_the_call_a_question() -> None:
    reply = guarded(dead_url(), turn("wipe")).reply(request())
    assert reply.verdicts[0].rule == "unrehearsed" and not reply.messages[0].tool_calls


def test_the_policy_predicts_what_its_environment_role_writes(tiny: Any, writer: Any, scripted: Any) -> None:
    task = pose("store", "order_cancel", 0, "train")
    steps = solve(task)[0]
    whole = writer.episode(task, steps, None)
    prompt = writer.prompt(task)

    def truth(ids: list[int], sample: int) -> list[int]:
        known = [*prompt, *whole.sampled]
        assert known[: len(ids)] == ids  # exactly the stream that the roll-out would have
        return known[len(ids) :] if sample else known[len(ids) : len(ids) + 2]

    rehearser = PolicyRehearser(Policy(scripted(truth), tiny.template), 1024)
    rehearsal = rehearser.rehearse(Pending(steps[0].call, task.tools, task.messages), 2)
    assert rehearsal.predictions == (None, steps[0].response)
    with pytest.raises(EnvaceError, match="the policy reads 300"):
        PolicyRehearser(rehearser.policy, 300).rehearse(Pending(steps[0].call, task.tools, task.messages), 1)


def test_the_tiny_policy_guards_reproducibly(tiny: Any) -> None:
    task = pose("store", "order_cancel", 0, "train")
    pending = Pending(solve(task)[0][0].call, task.tools, task.messages)
    policy = Policy(HFEngine(tiny.model, tiny.vocabulary), tiny.template)
    verdicts = [
        Guard(PolicyRehearser(policy, 1024, max_tokens=16), times=3).examine(pending) for _ in range(2)
    ]
    assert verdicts[0] == verdicts[1] and len(verdicts[0].predictions) == 3 and verdicts[0].tokens > 0
    assert verdicts[0].decision != "allow"  # random weights agree on nothing
