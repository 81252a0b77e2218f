"""Our server in front of another one: what passes through, what is rehearsed, what fails."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from fastapi.responses import JSONResponse
from scripted_server import Served, completion, dead_url, serving
from served_policy import FIND, HELLO, SlowEngine, backend, calls, client, says, until

from envace.errors import EnvaceError
from envace.serve.runner import served
from envace.serve.upstream import UpstreamService

CALL = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"item":"rome"}'}}


@contextmanager
def fronted(script: Any) -> Iterator[tuple[str, Served]]:
    """Our server in front of a scripted one."""
    with serving(script) as upstream, served(UpstreamService(upstream.url, branches=3)) as url:
        yield url, upstream


@pytest.fixture(scope="module")
def chain(template: Any, scripted: Any) -> Iterator[tuple[str, str]]:
    """Our server in front of our server; URLs of both."""
    engine = scripted(lambda prompt, sample: says(template, ("so it is, ö", "no")[sample % 2]))
    with served(backend(template, engine)) as inner, served(UpstreamService(inner)) as outer:
        yield inner, outer


def alike(chunk: Any) -> dict[str, Any]:
    return chunk.model_dump(exclude={"id", "created"})


@pytest.mark.parametrize("fields", [{}, {"n": 2, "logprobs": True}, {"stop": "it"}, {"max_tokens": 2}])
def test_answers_and_streams_are_those_of_the_server_behind(
    chain: tuple[str, str], fields: dict[str, Any]
) -> None:
    found: list[list[Any]] = []
    for url in chain:
        with client(url) as made:
            create = made.chat.completions.create
            asked: Any = {"model": "p", "messages": HELLO, "seed": 1, **fields}
            stream = create(**asked, stream=True, stream_options={"include_usage": True})
            found.append([alike(create(**asked)), *map(alike, stream)])
    assert found[0] == found[1] and len(found[0]) > 3


def test_models_are_those_behind_with_strategies(chain: tuple[str, str]) -> None:
    names = [row["id"] for row in httpx.get(f"{chain[1]}/models").json()["data"]]
    assert names == ["p", "p@parallel"]


def test_fields_that_we_do_not_know_pass_and_ours_do_not() -> None:
    with fronted(lambda *_: "fine") as (url, upstream), client(url) as made:
        extra = {"guided": {"json": {}}, "rehearsal": {"trace": True}}
        made.chat.completions.create(model="any/name", messages=HELLO, extra_body=extra)
        image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
        reply = made.chat.completions.create(model="m", messages=image)  # type: ignore[arg-type]
    assert reply.choices[0].message.content == "fine"
    assert upstream.bodies[0] == {"model": "any/name", "messages": HELLO, "guided": {"json": {}}}
    assert upstream.bodies[1]["messages"] == image


def test_a_name_with_an_at_sign_that_names_no_strategy_passes() -> None:
    with fronted(lambda *_: "fine") as (url, upstream), client(url) as made:
        for name in ("m@2024", "m@parallelism", "m@none", "@none", "m@parallel-4+plans"):
            made.chat.completions.create(model=name, messages=HELLO)
    assert [body["model"] for body in upstream.bodies] == ["m@2024", "m@parallelism", "m", "@none", "m"]


def test_our_key_goes_up_and_the_clients_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UP", "upstream-key")
    monkeypatch.setenv("ENVACE_API_KEY", "our-key")
    with serving(lambda *_: "fine") as upstream, served(UpstreamService(upstream.url, "UP")) as url:
        made = openai.OpenAI(base_url=url, api_key="our-key", max_retries=0)
        made.chat.completions.create(model="m", messages=HELLO)
    assert upstream.keys == ["Bearer upstream-key"]


def test_refusals_pass_as_they_are_and_absence_is_a_bad_gateway() -> None:
    busy = {"error": {"message": "later", "type": "t", "param": None, "code": "c"}}
    with fronted(lambda *_: JSONResponse(busy, 429, {"retry-after": "7"})) as (url, _):
        reply = httpx.post(f"{url}/chat/completions", json={"messages": HELLO, "stream": True})
        assert (reply.status_code, reply.headers["retry-after"], reply.json()) == (429, "7", busy)
    with served(UpstreamService(dead_url())) as url:
        for reply in (httpx.post(f"{url}/chat/completions", json={}), httpx.get(f"{url}/models")):
            assert reply.status_code == 502 and "upstream: ConnectError" in reply.json()["error"]["message"]
    with pytest.raises(EnvaceError):
        UpstreamService("ftp://x")


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_the_work_behind(template: Any, stream: bool) -> None:
    engine = SlowEngine(template, 0.005)
    with served(backend(template, engine)) as inner, served(UpstreamService(inner)) as outer:
        body = {"messages": HELLO, "max_tokens": 4000, "stream": stream}
        with (
            pytest.raises(httpx.ReadTimeout),
            httpx.stream("POST", f"{outer}/chat/completions", json=body, timeout=0.3) as reply,
        ):
            next(reply.iter_bytes())
            raise httpx.ReadTimeout("enough of the stream")
        assert until(lambda: engine.at_work == 0, 2)
        assert engine.generated_tokens < 400


class World:
    """Plays a model: calls when it is offered tools, predicts a price otherwise."""

    def __init__(self) -> None:
        self.together = 0
        self._inside = 0
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any], number: int) -> Any:
        with self._lock:
            self._inside += 1
            self.together = max(self.together, self._inside)
        time.sleep(0.02)
        with self._lock:
            self._inside -= 1
        if "tools" in body:
            return JSONResponse(completion(None, tool_calls=[CALL]))
        return '```json\n{"price": 3}\n```'


def test_parallel_rehearsal_over_chats() -> None:
    world = World()
    with fronted(world) as (url, upstream), client(url) as made:
        reply = made.chat.completions.create(
            model="m@parallel",
            messages=HELLO,
            tools=[FIND],  # type: ignore[list-item]
            temperature=0.2,
            n=2,
            seed=5,
            extra_body={"rehearsal": {"trace": True}},
        )
    memory = '{"name":"find","arguments":{"item":"rome"}} {"price":3}'
    *private, last = upstream.bodies
    assert len(private) == 6 and world.together >= 3
    acts = [body for body in private if "tools" in body]
    assert sorted(body["seed"] for body in acts) == [5, 6, 7]
    assert all(body["model"] == "m" and "n" not in body and body["temperature"] == 1 for body in private)
    (asked,) = {body["messages"][1]["content"] for body in private if "tools" not in body}
    assert "hello" in asked and "rome" in asked and "find(item)" in asked
    assert last["messages"] == [*HELLO, {"role": "system", "content": memory}]
    assert (last["n"], last["temperature"], last["model"]) == (2, 0.2, "m")
    assert reply.choices[0].message.tool_calls and reply.usage
    usage = reply.usage.model_dump()
    assert usage["completion_tokens_details"]["rehearsal_tokens"] == 6 * 3
    assert usage["total_tokens"] == 5 + 3 + 6 * 3
    trace = reply.rehearsal["trace"]  # type: ignore[attr-defined]
    assert trace["memory"] == memory and trace["tokens"] == {"act": 9, "environment": 9}
    assert trace["strategy"] == "parallel-3"


def test_a_rehearsal_before_a_stream_of_our_own_server(template: Any, scripted: Any) -> None:
    call = '{"name":"find","arguments":{"item":"rome"}}'

    def script(prompt: list[int], sample: int) -> list[int]:
        return says(template, "3") if template.encode("# call")[0] in prompt else calls(template, call)

    with (
        served(backend(template, scripted(script))) as inner,
        served(UpstreamService(inner)) as outer,
        client(outer) as made,
    ):
        first, *chunks = made.chat.completions.create(
            model="p",
            messages=HELLO,
            tools=[FIND],  # type: ignore[list-item]
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"rehearsal": {"strategy": "parallel-2", "trace": True}},
        )
    assert first.rehearsal["trace"]["strategy"] == "parallel-2"  # type: ignore[attr-defined]
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    spent = sum(first.rehearsal["trace"]["tokens"].values())  # type: ignore[attr-defined]
    assert usage.model_dump()["completion_tokens_details"]["rehearsal_tokens"] == spent > 0
    assert [c for chunk in chunks for choice in chunk.choices for c in choice.delta.tool_calls or ()]


@pytest.mark.parametrize("strategy", ["sequential-2", "parallel-2+policy", "magic", "parallel-65"])
def test_what_a_chat_server_cannot_rehearse_is_refused(strategy: str) -> None:
    with fronted(lambda *_: "fine") as (url, upstream):
        body = {"messages": HELLO, "rehearsal": {"strategy": strategy}}
        reply = httpx.post(f"{url}/chat/completions", json=body)
        assert reply.status_code == 400 and upstream.bodies == []


def test_a_rehearsal_that_fails_fails_the_request() -> None:
    with fronted(lambda *_: JSONResponse({"nope": 1})) as (url, _):
        body = {"model": "m@parallel", "messages": HELLO, "tools": [FIND]}
        reply = httpx.post(f"{url}/chat/completions", json=body)
        assert reply.status_code == 502 and "in rehearsal" in json.dumps(reply.json())
