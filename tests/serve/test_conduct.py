"""How the server behaves when clients do not: limits, cut connections, slow and malformed bodies."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_policy import HELLO, SlowEngine, backend, client, until

from envace.serve.errors import RequestError
from envace.serve.limits import Limits, Rate
from envace.serve.local import LocalService
from envace.serve.runner import served
from envace.serve.service import Answer

BODY = json.dumps({"messages": HELLO, "max_tokens": 3}).encode()


class Watched(LocalService):
    """The service, and the loop it runs in."""

    loop: asyncio.AbstractEventLoop

    async def answer(self, body: bytes) -> Answer:
        self.loop = asyncio.get_running_loop()
        return await super().answer(body)


@pytest.fixture(scope="module")
def engine(template: Any) -> SlowEngine:
    return SlowEngine(template, 0.002)


@pytest.fixture(scope="module")
def service(template: Any, engine: SlowEngine) -> Watched:
    return Watched(backend(template, engine), 8)


@pytest.fixture(scope="module")
def url(service: Watched) -> Iterator[str]:
    limits = Limits(body_bytes=1_000_000, body_seconds=0.4, seconds=1.0, running=8)
    with served(service, limits=limits) as base:
        yield base


@pytest.fixture(autouse=True)
def nothing_is_left_behind(url: str, service: Watched, engine: SlowEngine) -> Iterator[None]:
    assert post(url).status_code == 200
    before = len(asyncio.all_tasks(service.loop))
    threads = threading.active_count()
    yield
    assert post(url).status_code == 200
    assert until(lambda: engine.at_work == 0)
    # The task of a connection that is kept open may come and go.
    assert until(lambda: len(asyncio.all_tasks(service.loop)) <= before + 1)
    assert threading.active_count() <= threads + 8
    assert gauge(url, "envace_requests_running") == gauge(url, "envace_requests_waiting") == 0


def post(url: str, content: Any = BODY, **options: Any) -> httpx.Response:
    return httpx.post(f"{url}/chat/completions", content=content, timeout=10, **options)


def gauge(url: str, name: str) -> float:
    text = httpx.get(url.removesuffix("/v1") + "/metrics").text
    found = [line for line in text.splitlines() if line.startswith(name)]
    return float(found[0].rpartition(" ")[2]) if found else 0


def read_until(sock: socket.socket, mark: bytes) -> bytes:
    """What comes until `mark` has come, in however many pieces, or the server hangs up."""
    seen = b""
    while mark not in seen and (more := sock.recv(4096)):
        seen += more
    return seen


def raw(url: str, body: bytes, length: int | None = None) -> socket.socket:
    """A connection that has sent a request, or a part of one."""
    host, port = url.split("/")[2].split(":")
    sock = socket.create_connection((host, int(port)), timeout=10)
    length = len(body) if length is None else length
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    sock.sendall(head.encode() + body)
    return sock


def body(**fields: Any) -> bytes:
    return json.dumps({"messages": HELLO, **fields}).encode()


LONG = body(max_tokens=4000)


@pytest.mark.parametrize("stream", [False, True])
def test_work_ends_when_its_client_leaves(url: str, engine: SlowEngine, stream: bool) -> None:
    left = gauge(url, 'envace_requests_total{status="499"}')
    before = engine.generated_tokens
    sock = raw(url, body(max_tokens=4000, stream=stream))
    if stream:
        assert b"200 OK" in read_until(sock, b"200 OK")
    assert until(lambda: engine.at_work == 1)
    sock.close()
    assert until(lambda: engine.at_work == 0)
    assert engine.generated_tokens - before < 1000
    assert until(lambda: gauge(url, 'envace_requests_total{status="499"}') == left + 1)


def test_the_client_library_ends_a_stream_it_closes(url: str, engine: SlowEngine) -> None:
    before = engine.generated_tokens
    with (
        client(url) as made,
        made.chat.completions.create(model="p", messages=HELLO, max_tokens=4000, stream=True) as stream,
    ):
        first = [next(iter(stream)) for _ in range(3)]
    assert first and until(lambda: engine.at_work == 0)
    assert engine.generated_tokens - before < 1000


def test_clients_that_leave_by_the_dozen(url: str) -> None:
    socks = [raw(url, body(max_tokens=4000, stream=k % 2 == 0)) for k in range(24)]
    socks += [raw(url, b'{"messages"', 5000) for _ in range(6)]
    time.sleep(0.1)
    for sock in socks:
        sock.close()
    assert until(lambda: gauge(url, "envace_requests_running") == 0)


def test_a_slow_reader_gets_everything(url: str) -> None:
    with raw(url, body(max_tokens=50, stream=True)) as sock:
        sock.settimeout(5)
        seen = b""
        while not seen.endswith(b"0\r\n\r\n"):
            seen += sock.recv(64)
            time.sleep(0.002)
    assert seen.count(b'"content": "a"') == 50 and b"[DONE]" in seen


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_too_long_is_refused_and_the_refusal_read(url: str, chunked: bool) -> None:
    content = b"x" * 11_000_000
    parts = iter([content[k : k + 65536] for k in range(0, len(content), 65536)])
    reply = post(url, parts if chunked else content)
    assert reply.status_code == 413 and reply.json()["error"]["code"] == "body_too_long"


def test_a_body_too_long_is_refused_unread(url: str) -> None:
    with raw(url, b"x", 10_000_000_000) as sock:
        assert b"413" in read_until(sock, b"413")


def test_ten_megabytes_are_taken_by_default(template: Any, scripted: Any, engine: SlowEngine) -> None:
    with served(backend(template, engine)) as other:
        most = Limits().body_bytes
        blank = body(max_tokens=2)
        assert post(other, blank + b" " * (most - len(blank))).status_code == 200
        assert post(other, blank + b" " * (most - len(blank) + 1)).status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for(url: str) -> None:
    with raw(url, b'{"messages": [', 500) as sock:
        answer = read_until(sock, b"0.4 s")
    assert b" 408 " in answer and b"0.4 s" in answer


@pytest.mark.parametrize(
    "content",
    [
        b"", b"null", b"[]", b"{}", b"nul", b"\x00", b"\xff\xfe{}", b'"' * 99, b"[" * 100_000,
        b'{"messages": "x"}', b'{"messages":' + b"[" * 50_000,
        b'{"messages": [{"role": "user", "content": "\\ud83d"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "stream": {}}',
    ],
)  # fmt: skip
def test_malformed_bodies_are_one_line(url: str, content: bytes) -> None:
    reply = post(url, content)
    error = reply.json()["error"]
    assert reply.status_code == 400 and error["type"] == "invalid_request_error"
    assert error["message"] and "\n" not in error["message"]


def test_a_request_that_takes_too_long(url: str) -> None:
    reply = post(url, LONG)
    assert reply.status_code == 504 and "1 s" in reply.json()["error"]["message"]
    with client(url) as made, pytest.raises(openai.APIError, match="within 1 s"):
        for _ in made.chat.completions.create(model="p", messages=HELLO, max_tokens=4000, stream=True):
            pass


def test_a_full_line_turns_away_and_says_when_to_come_back(template: Any) -> None:
    slow = SlowEngine(template, 0.01)
    with served(backend(template, slow), limits=Limits(running=1, waiting=1)) as other:
        with ThreadPoolExecutor(2) as pool:
            taken = [pool.submit(post, other, body(max_tokens=40)) for _ in range(2)]
            assert until(lambda: gauge(other, "envace_requests_waiting") == 1)
            refused = post(other)
            assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
            assert refused.json()["error"]["type"] == "rate_limit_error"
            assert [future.result().status_code for future in taken] == [200, 200]
        assert slow.batches == [1, 1]


def test_too_many_a_minute(template: Any, engine: SlowEngine) -> None:
    with served(backend(template, engine), limits=Limits(per_minute=2)) as other:
        replies = [post(other) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert 28 <= int(replies[2].headers["retry-after"]) <= 31


@given(st.integers(1, 20), st.lists(st.tuples(st.floats(0, 20), st.sampled_from("ab")), max_size=80))
def test_no_minute_has_more_than_twice_the_rate_and_a_patient_client_passes(
    per_minute: int, arrivals: list[tuple[float, str]]
) -> None:
    now = 0.0
    rate = Rate(per_minute, lambda: now)
    passed: dict[str, list[float]] = {"a": [], "b": []}
    for pause, address in arrivals:
        now += pause
        try:
            rate.take(address)
        except RequestError as error:
            now += error.retry_after
            rate.take(address)
        passed[address].append(now)
    for times in passed.values():
        for start in times:
            # A bucket holds a minute's worth and gets as much in a minute.
            assert sum(start <= at < start + 60 for at in times) <= 2 * per_minute


def test_metrics_count_what_happened(template: Any, scripted: Any, engine: SlowEngine) -> None:
    with served(backend(template, engine)) as other:
        post(other, body(max_tokens=5))
        post(other, b"nope")
        text = httpx.get(other.removesuffix("/v1") + "/metrics").text
    for line in (
        'envace_requests_total{status="200"} 1.0',
        'envace_requests_total{status="400"} 1.0',
        "envace_request_seconds_count 2.0",
        'envace_tokens_total{role="act"} 5.0',
        'envace_tokens_total{role="rehearse"} 0.0',
        "envace_requests_waiting 0.0",
    ):
        assert line in text.splitlines()


def test_unknown_paths_and_methods_are_error_objects(url: str) -> None:
    root = url.removesuffix("/v1")
    for reply, status in ((httpx.get(f"{root}/nope"), 404), (httpx.get(f"{url}/chat/completions"), 405)):
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, None)


def test_sigterm_lets_what_has_begun_finish(tiny: Any) -> None:
    script = Path(__file__).with_name("slow_server.py")
    process = subprocess.Popen([sys.executable, script, tiny.folder], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        base = process.stdout.readline().split()[-1]
        with client(base) as made:
            stream = made.chat.completions.create(model="p", messages=HELLO, max_tokens=40, stream=True)
            chunks = [next(iter(stream))]
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            with pytest.raises(httpx.TransportError):
                post(base)
            chunks += list(stream)
        assert sum(len(c.choices[0].delta.content or "") for c in chunks) == 40
        assert chunks[-1].choices[0].finish_reason == "length"
        assert process.wait(10) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
