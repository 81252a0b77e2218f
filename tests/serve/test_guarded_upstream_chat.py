"""The guard in front of another chat server: what passes, what is kept back, and what it costs."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml
from fastapi.responses import JSONResponse
from scripted_server import Served, completion, serving
from served_policy import HELLO, client

from envace.errors import EnvaceError
from envace.guard.serving import guard_upstream, read_settings
from envace.serve.runner import served
from envace.serve.upstream import UpstreamService

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("look", "wipe")]


def calling(*names: str, content: str | None = None) -> dict[str, Any]:
    """A completion with calls, and with a field that nobody here knows."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": '{"at": "x"}'}}
        for n, name in enumerate(names)
    ]
    body = completion(content, tool_calls=calls) | {"model": "big", "system_fingerprint": "fp"}
    body["choices"][0]["finish_reason"] = "tool_calls"
    return body


@contextmanager
def guarding(folder: Path, answer: Any, predicts: Any) -> Iterator[tuple[str, Served, Served]]:
    """Our server with a guard in front of a scripted one; a second one predicts."""
    script = predicts if callable(predicts) else lambda *_: predicts
    with serving(script) as model, serving(lambda *_: JSONResponse(answer)) as upstream:
        endpoint = {"endpoints": [model.url], "model": "m", "attempts": 1}
        path = folder / "guard.yaml"
        rules = {"limits": [{"tool": "wipe", "field": "left", "min": 0}]}
        values = {"tools": {"irreversible": ["wi*"]}, "rehearse": {"endpoint": endpoint, "times": 3}}
        path.write_text(yaml.safe_dump(values | {"rules": rules}))
        service = guard_upstream(UpstreamService(upstream.url), read_settings(path), 4)
        with served(service) as url:
            yield url, upstream, model


def ask(url: str, messages: Any = HELLO, **fields: Any) -> Any:
    with client(url) as made:
        asked: dict[str, Any] = {"model": "big", "messages": messages, "tools": TOOLS, **fields}
        reply = made.chat.completions.create(**asked)
        return list(reply) if "stream" in fields else reply


@pytest.mark.parametrize("answer", [calling("look", "look"), completion("all is well")])
def test_what_is_not_guarded_passes_as_it_is_and_costs_nothing(tmp_path: Path, answer: Any) -> None:
    with guarding(tmp_path, answer, "{}") as (url, upstream, model):
        body = {"model": "big", "messages": HELLO, "tools": TOOLS, "guided": {"json": {}}}
        found = httpx.post(f"{url}/chat/completions", json=body).json()
        assert found == answer
        assert upstream.bodies == [body] and model.bodies == []
        names = [row["id"] for row in httpx.get(f"{url}/models").json()["data"]]
        assert names == ["scripted", "scripted@parallel"]


def test_a_call_that_passes_is_returned_with_its_verdict(tmp_path: Path) -> None:
    with guarding(tmp_path, calling("wipe"), '{"left": 1}') as (url, _, model):
        reply = ask(url)
    assert reply.choices[0].message.tool_calls[0].function.name == "wipe"
    assert reply.choices[0].finish_reason == "tool_calls" and reply.system_fingerprint == "fp"
    assert [v["decision"] for v in reply.guard["verdicts"]] == ["allow"] and len(model.bodies) == 3
    assert reply.usage.completion_tokens_details.rehearsal_tokens == 9  # three predictions of three tokens
    assert reply.usage.total_tokens == 8 + 9


def test_a_turn_with_a_denied_call_is_kept_back_whole_and_its_words_stay(tmp_path: Path) -> None:
    said = calling("look", "wipe", content="I will.")
    with guarding(tmp_path, said, '{"error": "locked"}') as (url, upstream, _):
        reply = ask(url)
        stream = ask(url, stream=True, stream_options={"include_usage": True})
        metrics = httpx.get(url.removesuffix("/v1") + "/metrics").text
    (choice,) = reply.choices
    assert choice.message.tool_calls is None and choice.finish_reason == "stop"
    assert choice.message.content.startswith('I will.\n\nThe guard stopped wipe {"at":"x"}: denied')
    assert [(v["tool"], v["decision"]) for v in reply.guard["verdicts"]] == [("wipe", "deny")]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == choice.message.content
    assert not any(chunk.choices and chunk.choices[0].delta.tool_calls for chunk in stream)
    assert stream[-1].guard["verdicts"] == reply.guard["verdicts"]
    assert stream[-1].usage.total_tokens == reply.usage.total_tokens == 8 + 9
    assert ["stream" in body or "stream_options" in body for body in upstream.bodies] == [False, False]
    assert 'envace_tokens_total{role="rehearse"} 18.0' in metrics
    lines = [json.loads(line) for line in (tmp_path / "guard.jsonl").read_text().splitlines()]
    assert [(line["tool"], line["decision"]) for line in lines] == [("wipe", "deny")] * 2


def test_consent_lets_exactly_that_call_pass(tmp_path: Path) -> None:
    with guarding(tmp_path, calling("wipe"), lambda _, number: json.dumps({"left": number})) as (url, _, _):
        words = ask(url).choices[0].message.content
        (code,) = re.findall(r'"allow (\w+)"', words)
        told = [*HELLO, {"role": "assistant", "content": words}]
        assert ask(url, [*told, {"role": "user", "content": "go on"}]).choices[0].finish_reason == "stop"
        passed = ask(url, [*told, {"role": "user", "content": f"allow {code}"}])
    assert [call.function.name for call in passed.choices[0].message.tool_calls] == ["wipe"]


@pytest.mark.parametrize("answer", [{"choices": None}, {"object": "error"}, [1]])
def test_an_answer_that_the_guard_cannot_read_does_not_pass(tmp_path: Path, answer: Any) -> None:
    with guarding(tmp_path, answer, "{}") as (url, _, _), pytest.raises(openai.APIStatusError) as caught:
        ask(url)
    assert caught.value.status_code == 502 and "cannot read the upstream answer" in str(caught.value)


def test_somebody_has_to_rehearse(tmp_path: Path) -> None:
    path = tmp_path / "guard.yaml"
    path.write_text("tools: {irreversible: [wipe]}")
    with pytest.raises(EnvaceError, match="nobody rehearses"):
        guard_upstream(UpstreamService("http://127.0.0.1:9/v1"), read_settings(path), 1)
