"""The guard in front of a served policy that rehearses its own calls: the official client, a real server."""

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from scripted_server import serving
from served_policy import HELLO, backend, calls, client, says, until

from envace.errors import EnvaceError
from envace.guard.serving import guard_policy, read_settings
from envace.serve.runner import served

LOOK, WIPE = ({"type": "function", "function": {"name": name}} for name in ("look", "wipe"))
RULES = {"limits": [{"tool": "wipe", "field": "left", "min": 0}]}


def call(name: str, at: str = "x") -> str:
    return f'{{"name":"{name}","arguments":{{"at":"{at}"}}}}'


class Plays:
    """Both roles of a policy: the turn it is told to write, and the responses it is told to predict."""

    def __init__(self, template: Any, *turn: str, predicts: Any = '{"left":1}') -> None:
        self.template = template
        self.turn = calls(template, *turn) if "{" in turn[-1] else says(template, turn[-1])
        self.predicts = predicts

    def __call__(self, prompt: list[int], sample: int) -> list[int]:
        if prompt[-1] != self.template.call_end:
            return self.turn
        text = self.predicts(prompt, sample) if callable(self.predicts) else self.predicts
        return self.template.response_ids(text, False)


@contextmanager
def guarding(folder: Path, engine: Any, template: Any, **fields: Any) -> Iterator[Any]:
    """A client of a policy behind a guard; asks with both tools on offer."""
    path = folder / "guard.yaml"
    values = {"tools": {"irreversible": ["wi*"]}, "rehearse": {"times": 3}, "rules": RULES}
    path.write_text(yaml.safe_dump(values | fields))
    guarded = guard_policy(backend(template, engine), read_settings(path))
    with served(guarded) as url, client(url) as made:

        def ask(messages: Any = HELLO, **fields: Any) -> Any:
            asked: dict[str, Any] = {"model": "p", "messages": messages, "tools": [LOOK, WIPE]}
            return made.chat.completions.create(**asked | fields)

        yield ask


def test_a_call_that_is_predicted_to_fail_is_denied_with_the_reason_in_words_and_as_a_verdict(
    tmp_path: Path, template: Any, scripted: Any
) -> None:
    engine = scripted(Plays(template, "I will.", call("look"), call("wipe"), predicts='{"error":"locked"}'))
    with guarding(tmp_path, engine, template) as ask:
        reply = ask()
    (choice,) = reply.choices
    assert choice.message.tool_calls is None and choice.finish_reason == "stop"
    reason = '3 of 3 rehearsals predict an error, as in {"error":"locked"}'
    assert choice.message.content.startswith('I will.\n\nThe guard stopped wipe {"at":"x"}: denied, rule ')
    assert reason in choice.message.content
    (verdict,) = reply.guard["verdicts"]
    cost = verdict.pop("tokens")
    assert verdict == {
        "choice": 0, "tool": "wipe", "arguments": {"at": "x"}, "decision": "deny", "rule": "predicted_error",
        "reason": reason, "predictions": ['{"error":"locked"}'] * 3,
    }  # fmt: skip
    assert (
        cost
        == reply.usage.completion_tokens_details.rehearsal_tokens
        == 3 * len(template.response_ids('{"error":"locked"}', False))
    )
    assert engine.generated_tokens == cost + reply.usage.completion_tokens
    (line,) = map(json.loads, (tmp_path / "guard.jsonl").read_text().splitlines())
    assert (line["tool"], line["decision"], line["tokens"]) == ("wipe", "deny", cost)


@pytest.mark.parametrize("turn", [[call("look"), call("look", "y")], ["all is well"]])
def test_a_turn_without_irreversible_calls_costs_no_more_work_than_without_a_guard(
    tmp_path: Path, template: Any, scripted: Any, turn: list[str]
) -> None:
    engine = scripted(Plays(template, *turn))
    with guarding(tmp_path, engine, template) as ask:
        reply = ask()
    assert len(engine.seen) == 1 and not hasattr(reply, "guard")
    assert len(reply.choices[0].message.tool_calls or ()) == len([text for text in turn if "{" in text])
    assert reply.usage.completion_tokens_details.rehearsal_tokens == 0


def test_an_allowed_call_passes_and_its_rehearsal_continues_the_chat(
    tmp_path: Path, template: Any, scripted: Any
) -> None:
    engine = scripted(Plays(template, call("wipe")))
    with guarding(tmp_path, engine, template) as ask:
        reply = ask()
    (made,) = reply.choices[0].message.tool_calls
    assert (made.function.name, made.function.arguments) == ("wipe", '{"at":"x"}')
    assert [v["decision"] for v in reply.guard["verdicts"]] == ["allow"]
    act, rehearsal = engine.seen
    assert rehearsal == act + calls(template, call("wipe"))


def test_a_stream_tells_text_at_once_and_calls_only_once_they_are_allowed(
    tmp_path: Path, template: Any, scripted: Any
) -> None:
    engine = scripted(Plays(template, "I will.", call("wipe"), predicts='{"left":-1}'))
    with guarding(tmp_path, engine, template) as ask:
        whole, chunks = ask(), list(ask(stream=True))
        engine.script.predicts = '{"left":0}'
        allowed = list(ask(stream=True))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert not any(delta.tool_calls for delta in deltas) and deltas[0].content == "I"
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert chunks[-1].guard == whole.guard and whole.guard["verdicts"][0]["rule"] == "limits"
    names = [c.function.name for k in allowed for i in k.choices for c in i.delta.tool_calls or ()]
    assert names == ["wipe"] and allowed[-1].guard["verdicts"][0]["decision"] == "allow"


def test_a_doubt_is_a_question_that_the_next_message_answers(
    tmp_path: Path, template: Any, scripted: Any
) -> None:
    doubt = Plays(template, call("wipe"), predicts=lambda prompt, sample: f'{{"left":{sample}}}')
    with guarding(tmp_path, scripted(doubt), template) as ask:
        asked = ask().choices[0].message.content
        (code,) = re.findall(r'answer "allow (\w{8})"', asked)
        said = [*HELLO, {"role": "assistant", "content": asked}]
        passed = ask([*said, {"role": "user", "content": f"allow {code}"}])
        assert ask([*said, {"role": "user", "content": "yes"}]).choices[0].message.tool_calls is None
    assert passed.choices[0].message.tool_calls[0].function.name == "wipe"
    assert passed.guard["verdicts"][0]["rule"] == "disagreement"


def test_each_turn_of_several_is_decided_about_by_itself(
    tmp_path: Path, template: Any, scripted: Any
) -> None:
    def script(prompt: list[int], sample: int) -> list[int]:
        turns = [calls(template, call("wipe", at)) for at in ("good", "bad")]
        if prompt[-1] != template.call_end:
            return turns[sample]
        left = -1 if prompt[-len(turns[1]) :] == turns[1] else 1
        return list(template.response_ids(f'{{"left":{left}}}', False))

    with guarding(tmp_path, scripted(script), template) as ask:
        reply = ask(n=2)
    assert [choice.finish_reason for choice in reply.choices] == ["tool_calls", "stop"]
    found = [(v["choice"], v["arguments"]["at"], v["decision"]) for v in reply.guard["verdicts"]]
    assert found == [(0, "good", "allow"), (1, "bad", "deny")]


def test_clients_are_guarded_at_once(tmp_path: Path, template: Any, scripted: Any) -> None:
    engine = scripted(Plays(template, call("wipe")))
    with guarding(tmp_path, engine, template) as ask, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: ask(), range(8)))
    assert [reply.guard["verdicts"][0]["decision"] for reply in replies] == ["allow"] * 8
    assert len((tmp_path / "guard.jsonl").read_text().splitlines()) == 8


def test_another_model_may_rehearse_instead(tmp_path: Path, template: Any, scripted: Any) -> None:
    engine = scripted(Plays(template, call("wipe")))
    with serving(lambda body, number: '{"error": "no"}') as model:
        endpoint = {"endpoints": [model.url], "model": "m"}
        rehearse = {"endpoint": endpoint, "times": 2}
        with guarding(tmp_path, engine, template, rehearse=rehearse) as ask:
            assert ask().guard["verdicts"][0]["predictions"] == ['{"error":"no"}'] * 2
    assert len(engine.seen) == 1 and len(model.bodies) == 2


def test_a_client_that_left_gets_no_further_rehearsals(tmp_path: Path, template: Any, scripted: Any) -> None:
    left = threading.Event()

    def script(body: dict[str, Any], number: int) -> str:
        left.wait(5)
        return "{}"

    engine = scripted(Plays(template, call("wipe"), call("wipe", "y")))
    with serving(script) as model:
        rehearse = {"endpoint": {"endpoints": [model.url], "model": "m"}, "times": 1}
        with guarding(tmp_path, engine, template, rehearse=rehearse) as ask:
            with pytest.raises(openai.APITimeoutError):
                ask(timeout=0.3)
            time.sleep(0.2)  # until the server has noticed
            left.set()
            assert until(lambda: len((tmp_path / "guard.jsonl").read_text().splitlines()) == 1)
            time.sleep(0.2)
    assert len(model.bodies) == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tools": {"reversible": ["look"]}}, "tools.irreversible is empty"),
        ({"upstream": {"command": ["x"]}}, "upstream: Extra inputs"),
        ({"rehearse": {"context": "x"}}, "rehearse.context: Extra inputs"),
        ({"rehearse": {"policy": "nowhere"}}, "rehearse.policy: no folder"),
        (None, "name the file with --guard"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(tmp_path: Path, fields: Any, says: str) -> None:
    path = tmp_path / "guard.yaml"
    if fields is not None:
        path.write_text(yaml.safe_dump({"tools": {"irreversible": ["*"]}} | fields))
    with pytest.raises(EnvaceError) as caught:
        read_settings(path)
    assert str(caught.value).startswith(f"{path}: ") and says in str(caught.value)
