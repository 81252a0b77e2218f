"""Messages between one client and one server: all pass as they are, but for guarded calls.

It works on JSON-RPC messages, not on what they mean, so that whatever a client and a server agree on
passes: resources, prompts, sampling, progress, methods of later revisions.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.abc
from mcp.shared.message import ClientMessageMetadata, MessageMetadata, ServerMessageMetadata
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from envace.guard.asking import VERSION_KEY
from envace.guard.calls import Admitted, GuardedCalls
from envace.guard.peer import Peer

Streams = tuple[Any, Any]
"""A transport: a stream of messages to read, one to write to."""
Connect = Callable[[], AbstractAsyncContextManager[Streams]]
"""Opens a transport."""


@dataclass(frozen=True)
class Open:
    """A request of the client that has no answer yet."""

    method: str
    """What is asked for."""
    params: Mapping[str, Any]
    """Its parameters."""
    unanswered: Callable[[], Awaitable[None]] | None
    """What the transport wants to be done when there will be no answer."""


class Relay:
    """One client session with its upstream connection."""

    def __init__(self, calls: GuardedCalls, name: str, handshake_only: bool) -> None:
        """Prepare a session.

        Args:
            calls: Decides about calls.
            name: How errors name the server.
            handshake_only: Revisions without a handshake are declined, as one of the transports has
                no connection then that could be relayed; clients fall back to the handshake.
        """
        self.calls = calls
        self.name = name
        self.handshake_only = handshake_only
        self.client = Peer()
        self.server = Peer()
        self._open: dict[RequestId, Open] = {}
        self._held: dict[RequestId, anyio.CancelScope] = {}
        self._version = ""

    async def run(self, streams: Streams, connect: Connect) -> None:
        """Relay until the client leaves; a lost server is said once, and answered for from then on.

        Args:
            streams: The client's transport.
            connect: Opens the server's.
        """
        read, write = streams
        self.client.connect(write)
        async with read, write, anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve, connect)
            async for item in read:
                if isinstance(item, Exception):
                    await self._refuse(None, PARSE_ERROR, f"no JSON-RPC message: {item}")
                else:
                    await self._from_client(item.message, item.metadata, tasks)
            tasks.cancel_scope.cancel()

    async def _serve(self, connect: Connect) -> None:
        """Read from the server until it is gone, for whatever reason."""
        reason = "the connection was closed"
        try:
            async with connect() as (read, write):
                self.server.connect(write)
                async for item in read:
                    if not isinstance(item, Exception):
                        await self._from_server(item.message)
        except Exception as error:
            reason = _cause(error)
        self.server.lose(f"the MCP server {self.name} is gone: {reason}")
        print(
            f"error: {self.server.lost} (start it anew, and the guard with it)", file=sys.stderr, flush=True
        )
        for number in list(self._open):
            await self._refuse(number, CONNECTION_CLOSED, self.server.lost)

    async def _from_client(self, message: Any, metadata: Any, tasks: anyio.abc.TaskGroup) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            if not self.client.settles(message):
                await self._to_server(message)
        elif isinstance(message, JSONRPCRequest):
            unanswered = getattr(metadata, "on_request_unanswered", None)
            self._open[message.id] = Open(message.method, message.params or {}, unanswered)
            await self._request(message, tasks)
        elif message.method == "notifications/cancelled":
            await self._cancel(message)
        else:
            await self._to_server(message)

    async def _request(self, message: JSONRPCRequest, tasks: anyio.abc.TaskGroup) -> None:
        params = message.params or {}
        if self.server.lost:
            await self._refuse(message.id, CONNECTION_CLOSED, self.server.lost)
        elif self.handshake_only and VERSION_KEY in (params.get("_meta") or {}):
            supported = {
                "supported": list(HANDSHAKE_PROTOCOL_VERSIONS),
                "requested": params["_meta"][VERSION_KEY],
            }
            says = "the guard relays revisions with a handshake here"
            await self._refuse(message.id, UNSUPPORTED_PROTOCOL_VERSION, says, supported)
        elif message.method == "tools/call" and not self.calls.free(str(params.get("name"))):
            scope = self._held[message.id] = anyio.CancelScope()
            tasks.start_soon(self._hold, message, scope)
        else:
            if message.method == "initialize":
                self.calls.capabilities = params.get("capabilities") or {}
            await self._to_server(message)

    async def _hold(self, message: JSONRPCRequest, scope: anyio.CancelScope) -> None:
        """Keep a call back until it is decided; whatever goes wrong meanwhile, it does not pass."""
        related = ServerMessageMetadata(related_request_id=message.id)
        ask_client = partial(self.client.ask, metadata=related)
        with scope:
            try:
                decided = await self.calls.consider(message.params or {}, self._ask_server, ask_client)
            except Exception as error:
                says = f"the guard could not decide about the call, so it was not made: {_cause(error)}"
                await self._refuse(message.id, INTERNAL_ERROR, says)
                return
            finally:
                del self._held[message.id]
            if isinstance(decided, Admitted):
                await self._to_server(message.model_copy(update={"params": decided.params}))
                if self.server.lost:
                    await self._refuse(message.id, CONNECTION_CLOSED, self.server.lost)
            elif self._open.pop(message.id, None):
                await self.client.send(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=decided))

    async def _cancel(self, message: JSONRPCNotification) -> None:
        number = (message.params or {}).get("requestId")
        cancelled = self._open.pop(number, None) if isinstance(number, int | str) else None
        if isinstance(number, int | str) and number in self._held:
            self._held[number].cancel()  # the server never heard of it
        else:
            await self._to_server(message)
        if cancelled and cancelled.unanswered:
            await cancelled.unanswered()

    async def _from_server(self, message: Any) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            if self.server.settles(message):
                return
            asked = self._open.pop(message.id, None) if message.id is not None else None
            if asked and isinstance(message, JSONRPCResponse):
                # What is not as the protocol wants it is for the client to judge, so it passes as well.
                with suppress(AttributeError, TypeError, ValueError):
                    self._learn(asked, message.result)
        elif message.method == "notifications/tools/list_changed":
            self.calls.tools = None
        await self.client.send(message, ServerMessageMetadata(related_request_id=self._related(message)))

    def _learn(self, asked: Open, result: Mapping[str, Any]) -> None:
        match asked.method:
            case "initialize" | "server/discover":
                self._version = str(result.get("protocolVersion") or "")
                self.calls.greeted(result)
            case "tools/list":
                self.calls.listed(result, first="cursor" not in asked.params)
            case "tools/call":
                self.calls.returned(asked.params, result)

    def _related(self, message: Any) -> RequestId | None:
        """The client's request on whose HTTP stream a message travels.

        Progress names its request. For others it is the latest one, for which the server most likely
        sends it; without any it is the session's own stream.
        """
        token = (
            (message.params or {}).get("progressToken") if isinstance(message, JSONRPCNotification) else None
        )
        if token is not None:
            for number, asked in self._open.items():
                if (asked.params.get("_meta") or {}).get("progressToken") == token:
                    return number
        return next(reversed(self._open), None)

    async def _ask_server(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.server.ask(method, params, self._server_metadata())

    async def _to_server(self, message: Any) -> None:
        await self.server.send(message, self._server_metadata())

    def _server_metadata(self) -> MessageMetadata:
        """The header by which HTTP servers know the revision that was agreed on."""
        headers = {"mcp-protocol-version": self._version}
        return ClientMessageMetadata(headers=headers) if self._version else None

    async def _refuse(self, number: RequestId | None, code: int, says: str, data: Any = None) -> None:
        if number is not None and self._open.pop(number, None) is None:
            return
        error = (
            ErrorData(code=code, message=says)
            if data is None
            else ErrorData(code=code, message=says, data=data)
        )
        await self.client.send(JSONRPCError(jsonrpc="2.0", id=number, error=error))


def _cause(error: BaseException) -> str:
    """What is at the bottom of an error, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())
