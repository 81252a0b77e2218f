"""A real chat server on loopback that answers by script, and a clock that only sleeping moves."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

from envace.serve.runner import listen

Script = Callable[[dict[str, Any], int], Any]
"""From a request's body and number, from 0: the content of an answer, or a whole response."""


def completion(content: str | None, **message: Any) -> dict[str, Any]:
    """A chat completion that cost 5 tokens read and 3 written."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content} | message}
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    return {"choices": [choice | {"finish_reason": "stop"}], "usage": usage}


@dataclass
class Served:
    """What the server saw."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0


@contextmanager
def serving(script: Script) -> Iterator[Served]:
    """Serve the script while the block runs."""
    app = FastAPI()
    lock = threading.Lock()
    sock = listen("127.0.0.1", 0)
    seen = Served(f"http://127.0.0.1:{sock.getsockname()[1]}/v1")

    async def chat(request: Request) -> Response:
        body = json.loads(await request.body())
        with lock:
            number = len(seen.bodies)
            seen.bodies.append(body)
            seen.keys.append(request.headers.get("authorization", ""))
            seen.in_flight += 1
            seen.most_in_flight = max(seen.most_in_flight, seen.in_flight)
        try:
            answer = await run_in_threadpool(script, body, number)
        finally:
            with lock:
                seen.in_flight -= 1
        return answer if isinstance(answer, Response) else JSONResponse(completion(answer))

    app.add_api_route("/v1/chat/completions", chat, methods=["POST"])
    app.add_api_route("/v1/models", lambda: {"data": [{"id": "scripted"}]})
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield seen
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        sock.close()


def dead_url() -> str:
    """An endpoint where nobody listens."""
    with listen("127.0.0.1", 0) as sock:
        return f"http://127.0.0.1:{sock.getsockname()[1]}/v1"


class Clock:
    """Time in seconds; sleeping is what moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds
