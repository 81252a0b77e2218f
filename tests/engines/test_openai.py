"""The chat client against real servers on loopback, good, bad and absent."""

import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from fastapi.responses import JSONResponse, Response, StreamingResponse
from scripted_server import Clock, completion, dead_url, serving

from envace.engines.balance import Backoff
from envace.engines.openai import ChatClient, ChatError, Cost, retry_after
from envace.errors import EnvaceError
from envace.serve import ChatReply, ChatRequest
from envace.serve.runner import served
from envace.trajectory import Message, Tool, ToolCall

HELLO = [Message(role="user", content="hello")]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SECRET = "sk-do-not-show-me"


def client(*urls: str, **options: Any) -> ChatClient:
    """A client whose rests take no real time."""
    clock = Clock()
    return ChatClient(urls, "m", **{"clock": clock, "sleep": clock.sleep} | options)


def test_a_plain_chat_and_what_it_cost() -> None:
    with serving(lambda body, number: f"answer {number}") as server, closing(client(server.url)) as chat:
        reply = chat.chat(HELLO, max_tokens=9, temperature=0.5, seed=3)
        assert (reply.message.content, reply.value, reply.finish_reason) == ("answer 0", None, "stop")
        assert server.bodies == [
            {
                "model": "m",
                "messages": [{"role": "user", "content": "hello"}],
                "temperature": 0.5,
                "max_tokens": 9,
                "seed": 3,
            }
        ]
        assert server.keys == [""]
        chat.chat(HELLO)
        assert chat.cost == Cost(requests=2, failed=0, prompt_tokens=10, completion_tokens=6)


def test_a_schema_is_sent_and_replies_that_break_it_are_asked_for_anew() -> None:
    answers = ["no JSON", '{"n":"one"}', "[" * 100_000, Response("<html>"), JSONResponse({}), '{"n":1}']
    with (
        serving(lambda body, number: answers[number]) as server,
        closing(client(server.url, attempts=6)) as chat,
    ):
        assert chat.chat(HELLO, schema=SCHEMA).value == {"n": 1}
        assert [body["seed"] for body in server.bodies] == [0, 1, 2, 3, 4, 5]
        sent = server.bodies[0]["response_format"]
        assert sent["type"] == "json_schema" and sent["json_schema"]["schema"] == SCHEMA
        # Replies that could not be used were paid for; the two that were no completion say no price.
        assert chat.cost == Cost(requests=6, failed=0, prompt_tokens=20, completion_tokens=12)


def test_thoughts_in_front_of_the_json_are_skipped() -> None:
    with (
        serving(lambda *_: '<think>{"n":2}?</think>\n{"n":1}') as server,
        closing(client(server.url)) as chat,
    ):
        assert chat.chat(HELLO, schema=SCHEMA).value == {"n": 1}


def test_errors_of_the_server_are_waited_out_longer_each_time() -> None:
    clock = Clock()
    script = lambda body, number: Response("oops", 500 + number) if number < 3 else "good"  # noqa: E731
    with (
        serving(script) as server,
        closing(client(server.url, backoff=Backoff(first=1.0), clock=clock, sleep=clock.sleep)) as chat,
    ):
        assert chat.chat(HELLO).message.content == "good"
    assert len(clock.slept) == 3
    assert all(
        due / 2 - 1e-9 <= slept <= due + 1e-9 for slept, due in zip(clock.slept, (1, 2, 4), strict=True)
    )


def test_retry_after_is_obeyed_up_to_the_longest_rest() -> None:
    clock = Clock()
    headers = [{"Retry-After": "17"}, {"Retry-After": "86400"}]
    script = lambda body, number: Response("", 429, headers[number]) if number < 2 else "good"  # noqa: E731
    with (
        serving(script) as server,
        closing(client(server.url, backoff=Backoff(longest=60.0), clock=clock, sleep=clock.sleep)) as chat,
    ):
        assert chat.chat(HELLO).message.content == "good"
    assert clock.slept == pytest.approx([17.0, 60.0])


def test_retry_after_in_both_forms() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < retry_after(later) <= 90
    assert [retry_after(text) for text in ("12", " 3 ", "", "soon", "Wed, 21 Oct 2015 07:28:00 GMT")] == [
        12, 3, 0, 0, 0,
    ]  # fmt: skip


def test_a_dead_endpoint_beside_a_live_one_costs_one_attempt() -> None:
    clock = Clock()  # nobody sleeps, so the dead one never ends its rest
    with (
        serving(lambda *_: "alive") as server,
        closing(client(dead_url(), server.url, clock=clock, sleep=clock.sleep)) as chat,
    ):
        assert [chat.chat(HELLO).message.content for _ in range(10)] == ["alive"] * 10
        assert (chat.cost.requests, chat.cost.failed, clock.slept) == (11, 0, [])


def test_when_all_are_dead_the_attempts_are_bounded_and_the_error_is_one_line() -> None:
    with closing(client(dead_url(), dead_url(), attempts=3)) as chat:
        with pytest.raises(ChatError) as caught:
            chat.chat(HELLO)
        assert "3 attempts" in str(caught.value) and "ConnectError" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert (chat.cost.requests, chat.cost.failed) == (3, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 307])
def test_a_refusal_is_not_repeated(status: int) -> None:
    with (
        serving(lambda *_: Response("no\nsuch model", status)) as server,
        closing(client(server.url)) as chat,
    ):
        with pytest.raises(ChatError, match=f"{status}: no such model"):
            chat.chat(HELLO)
        assert (chat.cost.requests, chat.cost.failed) == (1, 1)


def test_requests_in_flight_are_bounded_and_results_in_order() -> None:
    def slow(body: dict[str, Any], number: int) -> str:
        time.sleep(0.01)
        return body["messages"][0]["content"]

    def ask(index: int) -> str:
        return chat.chat([Message(role="user", content=str(index))]).message.content

    with serving(slow) as server, closing(client(server.url, concurrency=3)) as chat:
        assert list(chat.each(ask, range(24))) == [str(index) for index in range(24)]
        assert server.most_in_flight == 3
        # From other people's threads, too.
        threads = [threading.Thread(target=ask, args=(index,)) for index in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.most_in_flight == 3


def test_a_slow_endpoint_gets_less() -> None:
    def slow(body: dict[str, Any], number: int) -> str:
        time.sleep(0.1)
        return "slow"

    with serving(slow) as tired, serving(lambda *_: "quick") as fresh:
        with closing(client(tired.url, fresh.url, concurrency=4)) as chat:
            list(chat.each(lambda _: chat.chat(HELLO), range(40)))
        assert len(tired.bodies) + len(fresh.bodies) == 40
        assert 1 <= len(tired.bodies) < len(fresh.bodies) / 2


def test_an_exception_in_a_thread_surfaces_and_the_rest_is_not_started() -> None:
    begun: list[int] = []

    def ask(index: int) -> int:
        begun.append(index)
        time.sleep(0.01)
        return 1 // (index - 1)

    with closing(client(dead_url(), concurrency=2)) as chat, pytest.raises(ZeroDivisionError):
        list(chat.each(ask, range(100)))
    assert len(begun) < 10


def test_a_server_that_only_drips_is_given_up_in_time() -> None:
    def drip() -> Iterator[bytes]:
        for _ in range(100):
            yield b" "
            time.sleep(0.05)

    options: dict[str, Any] = {"timeout": 0.2, "attempts": 1, "clock": time.monotonic}
    with serving(lambda *_: StreamingResponse(drip())) as server:
        begun = time.monotonic()
        with (
            closing(client(server.url, **options)) as chat,
            pytest.raises(ChatError, match=r"not done in 0\.2 s"),
        ):
            chat.chat(HELLO)
        assert time.monotonic() - begun < 2


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", f"{SECRET}\n")  # as read from a file
    echo = lambda status: lambda body, number: Response(f"bad key {SECRET} " * 30, status)  # noqa: E731
    said = []
    for status in (401, 500):
        with serving(echo(status)) as server:
            with closing(client(server.url, api_key_env="A_KEY")) as chat:
                with pytest.raises(ChatError) as caught:
                    chat.chat(HELLO)
                said += [
                    "".join(traceback.format_exception(caught.value)),
                    repr(chat),
                    repr(chat._http.headers),
                ]
            assert set(server.keys) == {f"Bearer {SECRET}"}
    with closing(client(dead_url(), api_key_env="A_KEY")) as chat, pytest.raises(ChatError) as caught:
        chat.chat(HELLO)
    said += ["".join(traceback.format_exception(caught.value))]
    assert "[key]" in said[0] and not any(SECRET in text or SECRET[:6] in text for text in said)


@pytest.mark.parametrize("value", [None, "", " ", "sk-ö", "sk-a\nb"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("A_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("A_KEY", value)
    with pytest.raises(EnvaceError, match="A_KEY") as caught:
        client(dead_url(), api_key_env="A_KEY")
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://h/v1", "http://", "http://u:hunter2@h/v1", "http://h/v1?key=hunter2"]
)
def test_an_endpoint_that_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(EnvaceError) as caught:
        client(url)
    assert "hunter2" not in str(caught.value)


def test_what_could_never_send_is_refused() -> None:
    for urls, options in (((), {}), ((dead_url(),), {"attempts": 0}), ((dead_url(),), {"concurrency": 0})):
        with pytest.raises(EnvaceError, match="m: "):
            client(*urls, **options)


class Recorder:
    """A backend of the project's own server that calls the first tool."""

    def __init__(self) -> None:
        self.seen: list[ChatRequest] = []

    def models(self) -> list[str]:
        return ["m"]

    def reply(self, request: ChatRequest) -> ChatReply:
        self.seen.append(request)
        call = ToolCall(name=request.tools[0].name, arguments={"item": "bobo"})
        message = Message(role="assistant", tool_calls=(call,))
        return ChatReply(messages=(message,), finish_reasons=("tool_calls",), prompt_tokens=2)


def test_tools_travel_to_the_projects_own_server_and_calls_back() -> None:
    look = ToolCall(name="look", arguments={})
    find = Tool(name="find", description="finds", parameters={"type": "object", "properties": {}})
    history = [
        *HELLO,
        Message(role="assistant", tool_calls=(look, look)),
        Message(role="tool", name="look", content="1"),
        Message(role="tool", name="look", content="2"),
    ]
    backend = Recorder()
    with served(backend) as url, closing(client(url)) as chat:
        reply = chat.chat(history, tools=[find])
    (call,) = reply.message.tool_calls
    assert (call.name, call.arguments, reply.finish_reason) == ("find", {"item": "bobo"}, "tool_calls")
    (request,) = backend.seen
    assert request.tools == (find,)
    # Calls without ids, as records have them, are paired with their responses in order.
    calls = request.messages[1].tool_calls
    assert len({call.id for call in calls}) == 2
    assert [message.tool_call_id for message in request.messages[2:]] == [call.id for call in calls]
    assert [message.content for message in request.messages[2:]] == ["1", "2"]


def test_text_without_a_utf8_form_travels_whole() -> None:
    with serving(lambda *_: "fine") as server, closing(client(server.url)) as chat:
        assert chat.chat([Message(role="user", content="half \ud83d, ö")]).message.content == "fine"
        assert server.bodies[0]["messages"][0]["content"] == "half \ud83d, ö"


def test_content_that_is_null_is_an_empty_turn() -> None:
    with serving(lambda *_: JSONResponse(completion(None))) as server, closing(client(server.url)) as chat:
        assert chat.chat(HELLO).message.content == ""
