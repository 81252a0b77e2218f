"""The guard's HTTP side: each client session has a relay and an upstream connection of its own."""

import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecuritySettings,
)
from mcp.types import INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from envace.guard.relay import Connect, Relay

IDLE_SECONDS = 1800.0
"""A session without any request for so long is closed, and its upstream connection with it."""
NAMES = ("127.0.0.1:*", "localhost:*", "[::1]:*")
"""Hosts that requests may name: a web page must not reach the guard under a name of its own."""


class Sessions:
    """An ASGI application of all sessions."""

    def __init__(self, make: Callable[[], Relay], connect: Connect) -> None:
        """Prepare.

        Args:
            make: Makes the relay of a new session.
            connect: Opens an upstream connection.
        """
        self.make = make
        self.connect = connect
        self.tasks: anyio.abc.TaskGroup | None = None
        self._open: dict[str, StreamableHTTPServerTransport] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one HTTP request."""
        headers = Request(scope).headers
        version = headers.get("mcp-protocol-version")
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            supported = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": version}
            says = "the guard serves revisions with a handshake over HTTP"
            await _error(400, UNSUPPORTED_PROTOCOL_VERSION, says, supported)(scope, receive, send)
            return
        session = headers.get("mcp-session-id")
        if session is None:
            await self._begin(scope, receive, send)
        elif session in self._open:
            await self._open[session].handle_request(scope, receive, send)
        else:
            await _error(404, INVALID_REQUEST, "no such session: initialize a new one")(scope, receive, send)

    async def _begin(self, scope: Any, receive: Any, send: Any) -> None:
        """A request outside a session opens one, if the transport finds it fit to."""
        session = uuid.uuid4().hex
        transport = StreamableHTTPServerTransport(
            session,
            security_settings=TransportSecuritySettings(
                allowed_hosts=list(NAMES), allowed_origins=[f"http://{name}" for name in NAMES]
            ),
            idle_timeout=IDLE_SECONDS,
        )
        status = 500

        async def watched(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        assert self.tasks is not None
        self._open[session] = transport
        try:
            await self.tasks.start(self._keep, session, transport)
            await transport.handle_request(scope, receive, watched)
        finally:
            if status >= 400:
                await transport.terminate()

    async def _keep(
        self, session: str, transport: StreamableHTTPServerTransport, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        try:
            async with transport.connect() as streams:
                task_status.started()
                assert transport.idle_scope is not None
                with transport.idle_scope:
                    await self.make().run(streams, self.connect)
        except Exception as error:  # one session must not end the others
            print(f"error: session {session}: {error!r}", file=sys.stderr, flush=True)
        finally:
            del self._open[session]


def create_app(make: Callable[[], Relay], connect: Connect) -> Starlette:
    """The application, with the endpoint `/mcp`."""
    sessions = Sessions(make, connect)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            sessions.tasks = tasks
            yield
            tasks.cancel_scope.cancel()

    endpoint = RequestBodyLimitMiddleware(sessions, DEFAULT_MAX_REQUEST_BODY_SIZE)
    return Starlette(routes=[Route("/mcp", endpoint=endpoint)], lifespan=lifespan)


def _error(status: int, code: int, says: str, data: Any = None) -> JSONResponse:
    error = {"code": code, "message": says} | ({} if data is None else {"data": data})
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status)
