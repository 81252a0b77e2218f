"""The chat endpoint: one coroutine sees a request from its first byte to its last.

It is a plain ASGI application, because a body that is refused unread, a client that leaves while
others work for it and a stream that fails midway are all a matter of single messages.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import anyio

from envace.serve.errors import RequestError
from envace.serve.limits import Gate, Limits, Rate
from envace.serve.metrics import Metrics
from envace.serve.reply_format import event
from envace.serve.service import Answer, Service

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

log = logging.getLogger(__name__)

LEFT = 499
"""Status under which requests are counted whose client left."""
LINGER_SECONDS = 5.0
"""How long a refusal may take: the rest of its body is read, unkept, so that the sender comes to read it."""


class ChatEndpoint:
    """`POST /v1/chat/completions`."""

    def __init__(
        self, service: Service, limits: Limits, gate: Gate, metrics: Metrics, check: Callable[["Scope"], None]
    ) -> None:
        """Answer with `service`; `check` raises `RequestError` for who may not ask."""
        self.service = service
        self.limits = limits
        self.gate = gate
        self.metrics = metrics
        self.check = check
        self.rate = Rate(limits.per_minute)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        begun = time.perf_counter()
        response = Response(send)
        try:
            self.check(scope)
            self.rate.take((scope.get("client") or ("",))[0])
            body = await read_body(scope, receive, self.limits)
        except RequestError as error:
            await response.refuse(error, receive)
        except ClientLeftError:
            response.status = LEFT
        else:
            if not await while_connected(receive, lambda: self._answer(body, response)):
                response.status = LEFT
        self.metrics.observe(response.status, time.perf_counter() - begun)

    async def _answer(self, body: bytes, response: "Response") -> None:
        """Answer within the time; every failure becomes an error object."""
        try:
            async with asyncio.timeout(self.limits.seconds), self.gate.enter():
                await response.deliver(await self.service.answer(body))
        except RequestError as error:
            await response.refuse(error)
        except TimeoutError:
            late = RequestError(f"not answered within {self.limits.seconds:g} s", "timeout", 504)
            # A client that does not read would hold up the refusal as it held up the answer.
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    await response.refuse(late)
        except Exception as error:
            log.exception("a request failed")
            await response.refuse(RequestError(f"{type(error).__name__}: {error}", None, 500))


class ClientLeftError(Exception):
    """The client left before its request was whole."""


class Response:
    """What goes to the client; once the head is sent, an error can only be one more event."""

    def __init__(self, send: "Send") -> None:
        """Nothing is sent yet."""
        self.status = 0
        self._send = send

    async def deliver(self, answer: Answer) -> None:
        """Send a whole answer."""
        if answer.rest is None:
            await self._head(answer.status, {**answer.headers, "content-length": str(len(answer.body))})
            await self._body(answer.body)
            return
        async with aclosing(answer.rest) as rest:
            stream = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
            await self._head(answer.status, {**stream, **answer.headers})
            if answer.body:
                await self._body(answer.body, more=True)
            async for chunk in rest:
                await self._body(chunk, more=True)
        await self._body(b"")

    async def refuse(self, error: RequestError, receive: "Receive | None" = None) -> None:
        """Send an error.

        Args:
            error: What is wrong.
            receive: Where the rest of the request comes from, if it is not read yet: that is thrown
                away for a while, or its sender, busy sending, would find the connection cut.
        """
        if self.status:
            await self._body(event(error.body()))
        else:
            body = json.dumps(error.body()).encode()
            close = {"connection": "close"} if receive else {}
            await self._head(error.status, {**error.headers(), **close, "content-length": str(len(body))})
            await self._body(body, more=True)
            if receive is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        while (await receive()).get("more_body"):
                            pass
        await self._body(b"")

    async def _head(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        headers = {"content-type": "application/json", **headers}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _body(self, body: bytes, more: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


async def read_body(scope: "Scope", receive: "Receive", limits: Limits) -> bytes:
    """The body, unless it is too long or too slow.

    Raises:
        RequestError: It is; no more than the limit was read.
        ClientLeftError: The client left midway.
    """
    too_long = RequestError(f"the body is longer than {limits.body_bytes} bytes", "body_too_long", 413)
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > limits.body_bytes:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeftError
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > limits.body_bytes:
                    raise too_long
    except TimeoutError as error:
        raise RequestError(f"the body took longer than {limits.body_seconds:g} s", "timeout", 408) from error
    return bytes(body)


async def while_connected(receive: "Receive", work: Callable[[], Awaitable[None]]) -> bool:
    """Do the work, cancel it when the client leaves; whether it was done."""
    done = False
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await work()
        done = True
        group.cancel_scope.cancel()
    return done
