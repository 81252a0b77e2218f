"""The official client drives the protocol: a real server, a template's real tokens, a scripted engine."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from served_policy import FIND, HELLO, LIST, Script, backend, calls, client, says

from envace.serve.runner import served

ROME, OSLO = '{"name":"find","arguments":{"item":"rome"}}', '{"name":"find","arguments":{"item":"oslo"}}'


class Scripts:
    """What the engine writes; a test sets it."""

    script: Script


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def engine(template: Any, scripted: Any, scripts: Scripts) -> Any:
    return scripted(lambda prompt, sample: scripts.script(prompt, sample))


@pytest.fixture(scope="module")
def openai_client(template: Any, engine: Any) -> Iterator[openai.OpenAI]:
    with served(backend(template, engine)) as url, client(url) as made:
        yield made


@pytest.fixture
def ask(template: Any, engine: Any, scripts: Scripts, openai_client: openai.OpenAI) -> Any:
    """Asks with a script of turns, one a sample."""
    engine.seen.clear()

    def create(turns: Any, **fields: Any) -> Any:
        if not callable(turns):
            tokens = [says(template, turn) if isinstance(turn, str) else turn for turn in turns]
            scripts.script = lambda prompt, sample: tokens[sample % len(tokens)]
        else:
            scripts.script = turns
        fields = {"model": "p", "messages": HELLO, **fields}
        return openai_client.chat.completions.create(**fields)

    return create


def told(stream: Any) -> tuple[dict[int, dict[str, Any]], list[Any]]:
    """Choices put together from a stream's chunks, and the chunks."""
    choices: dict[int, dict[str, Any]] = {}
    chunks = list(stream)
    for chunk in chunks:
        for item in chunk.choices:
            made = choices.setdefault(
                item.index, {"content": "", "calls": {}, "reason": None, "logprobs": [], "role": None}
            )
            made["role"] = item.delta.role or made["role"]
            made["content"] += item.delta.content or ""
            for call in item.delta.tool_calls or ():
                made["calls"][call.index] = call
            made["reason"] = item.finish_reason or made["reason"]
            made["logprobs"] += item.logprobs.content if item.logprobs else []
    return choices, chunks


def test_a_stream_tells_what_an_answer_says(ask: Any) -> None:
    whole = ask(["so it is, ö and 日本"])
    choices, chunks = told(ask(["so it is, ö and 日本"], stream=True, stream_options={"include_usage": True}))
    assert whole.choices[0].message.content == choices[0]["content"] == "so it is, ö and 日本"
    assert (choices[0]["role"], choices[0]["reason"]) == ("assistant", "stop")
    assert len({chunk.id for chunk in chunks}) == 1 and len(chunks) > 4
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage


def test_several_turns_stream_side_by_side(ask: Any) -> None:
    choices, _ = told(ask(["one of them", "another", "last"], n=3, stream=True))
    assert {k: c["content"] for k, c in choices.items()} == {0: "one of them", 1: "another", 2: "last"}


def test_calls_stream_whole_and_their_text_never_leaks(ask: Any, template: Any) -> None:
    turn = calls(template, "let me see", ROME, OSLO)
    choices, _ = told(ask([turn], tools=[FIND], stream=True))
    assert choices[0]["content"] == "let me see" and choices[0]["reason"] == "tool_calls"
    found = choices[0]["calls"]
    assert [json.loads(found[k].function.arguments) for k in (0, 1)] == [{"item": "rome"}, {"item": "oslo"}]
    assert found[0].id != found[1].id and found[0].function.name == "find"
    plain = ask([turn], tools=[FIND]).choices[0]
    assert plain.message.content == "let me see" and plain.finish_reason == "tool_calls"
    assert [c.function.name for c in plain.message.tool_calls] == ["find", "find"]


def test_ids_of_calls_differ_between_turns(ask: Any, template: Any) -> None:
    turn = calls(template, ROME)
    ids = {ask([turn], tools=[FIND]).choices[0].message.tool_calls[0].id for _ in range(3)}
    assert len(ids) == 3


def test_parallel_calls_can_be_refused(ask: Any, template: Any) -> None:
    turn = calls(template, ROME, OSLO)
    message = ask([turn], tools=[FIND], parallel_tool_calls=False).choices[0].message
    assert [json.loads(c.function.arguments)["item"] for c in message.tool_calls] == ["rome"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("stop", "expected"), [("END", "it is "), (["zzz", "is"], "it "), ("zzz", None)])
def test_stop_texts_end_an_answer(ask: Any, engine: Any, stream: bool, stop: Any, expected: Any) -> None:
    text = "it is END of it\nE"
    reply = ask([text], stop=stop, stream=stream)
    if stream:
        choices, _ = told(reply)
        content, reason = choices[0]["content"], choices[0]["reason"]
    else:
        content, reason = reply.choices[0].message.content, reply.choices[0].finish_reason
        assert expected is None or reply.usage.completion_tokens < len(text)
    assert (content, reason) == (text if expected is None else expected, "stop")


def test_max_tokens_cut(ask: Any, template: Any) -> None:
    for field in ("max_tokens", "max_completion_tokens"):
        reply = ask(["quite a long answer"], **{field: 2})
        assert reply.choices[0].finish_reason == "length" and reply.usage.completion_tokens == 2


def test_a_forced_call_is_opened_for_the_model(ask: Any, engine: Any, template: Any) -> None:
    opening = template.call_opening("find")
    rest = [*template.encode(ROME)[len(opening) :], min(template.end_ids)]
    reply = ask(lambda prompt, sample: rest, tools=[LIST, FIND], tool_choice=named("find"))
    (call,) = reply.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("find", '{"item":"rome"}')
    assert engine.seen[-1][-len(opening) :] == opening and reply.choices[0].finish_reason == "tool_calls"
    choices, _ = told(ask(lambda *_: rest, tools=[FIND], tool_choice=named("find"), stream=True))
    assert choices[0]["content"] == "" and choices[0]["calls"][0].function.name == "find"


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def test_a_required_call_is_written_anew_until_it_is_legible(ask: Any, engine: Any, template: Any) -> None:
    opening = template.call_opening("")
    good = [*template.encode(ROME)[len(opening) :], template.call_end]
    invented = [*template.encode('{"name":"fly","arguments":{}}')[len(opening) :], template.call_end]
    turns = iter([invented, template.encode("x"), good])
    reply = ask(lambda *_: next(turns), tools=[FIND], tool_choice="required", temperature=0)
    assert reply.choices[0].message.tool_calls[0].function.arguments == '{"item":"rome"}'
    assert [sampling.temperature for sampling in engine.samplings[-3:]] == [0, 1, 1]
    assert reply.usage.completion_tokens == len(good)
    assert reply.usage.completion_tokens_details.rehearsal_tokens == len(invented) + 1
    with pytest.raises(openai.UnprocessableEntityError, match="no call in 4 attempts"):
        ask(lambda *_: invented, tools=[FIND], tool_choice="required")


def test_logprobs_of_every_token(ask: Any, template: Any) -> None:
    choices, _ = told(ask(["a bit of text"], logprobs=True, stream=True))
    whole = ask(["a bit of text"], logprobs=True).choices[0].logprobs.content
    assert [item.token for item in whole] == [template.raw([t]) for t in says(template, "a bit of text")]
    assert [item.logprob for item in whole] == [-0.5] * len(whole)
    assert [item.token for item in choices[0]["logprobs"]] == [item.token for item in whole]
    assert ask(["a"]).choices[0].logprobs is None


@pytest.mark.parametrize("by", ["name", "field"])
def test_strategies_by_name_or_field_and_the_trace(ask: Any, template: Any, by: str) -> None:
    turn, response = calls(template, ROME), template.response_ids('{"price":3}', False)

    def script(prompt: list[int], sample: int) -> list[int]:
        return [*turn, *response]

    # Where a call ends, the engine stops, unless it rehearses both roles in one go.
    model, extra = ("p@parallel-2", {}) if by == "name" else ("p", {"strategy": "parallel-2"})
    reply = ask(script, model=model, tools=[FIND], extra_body={"rehearsal": extra | {"trace": True}})
    trace = reply.rehearsal["trace"]
    assert trace["strategy"] == "parallel-2" and len(trace["branches"]) == 2
    assert ROME in trace["memory"] and trace["environment_calls"] == 0
    spent = reply.usage.completion_tokens_details.rehearsal_tokens
    assert spent == 2 * len([*turn, *response]) == sum(trace["tokens"].values())
    assert reply.usage.completion_tokens == len(turn)
    plain = ask(script, model="p@parallel-2", tools=[FIND])
    assert not hasattr(plain, "rehearsal")
    *_, last = ask(
        script, model="p", tools=[FIND], stream=True, extra_body={"rehearsal": extra | {"trace": True}}
    )
    assert last.rehearsal["trace"]["strategy"] == ("parallel-2" if by == "field" else "none")


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"model": "q"}, openai.NotFoundError, "no model 'q'"),
        ({"model": "p@magic"}, openai.NotFoundError, "no rehearsal strategy"),
        ({"model": "p@"}, openai.NotFoundError, "no model"),
        ({"model": "p@parallel-65"}, openai.BadRequestError, "at most 64"),
        ({"extra_body": {"rehearsal": {"strategy": "magic"}}}, openai.BadRequestError, "no rehearsal"),
        ({"extra_body": {"rehearsal": 1}}, openai.BadRequestError, "rehearsal"),
        ({"max_tokens": 5000}, openai.BadRequestError, "the model takes 4096"),
        ({"max_tokens": 5000, "stream": True}, openai.BadRequestError, "the model takes 4096"),
        ({"tool_choice": named("fly"), "tools": [FIND]}, openai.BadRequestError, "do not offer"),
    ],
)
def test_refusals(ask: Any, fields: dict[str, Any], kind: type[openai.APIStatusError], says: str) -> None:
    with pytest.raises(kind, match=says):
        ask(["x"], **fields)


def test_models(openai_client: openai.OpenAI) -> None:
    assert [model.id for model in openai_client.models.list()] == ["p", "p@parallel"]
