"""One end of the relay: messages go out to it, and our own requests to it get their answers."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.message import MessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

PREFIX = "envace-guard-"
"""What the ids of our own requests begin with."""


class LostError(Exception):
    """The peer is gone, or answered a request of ours with an error."""


@dataclass
class _Waiting:
    """A request of ours without an answer yet."""

    arrived: anyio.Event = field(default_factory=anyio.Event)
    answer: dict[str, Any] | str = ""
    """The result, or why there is none."""


class Peer:
    """A client or a server; usable before it is connected."""

    def __init__(self) -> None:
        """Nobody is there yet."""
        self.lost = ""
        """Why the peer is gone, once it is."""
        self._write: Any = None
        self._connected = anyio.Event()
        self._waiting: dict[str, _Waiting] = {}

    def connect(self, write: Any) -> None:
        """Take a write stream; whoever waits to send goes on."""
        self._write = write
        self._connected.set()

    def lose(self, reason: str) -> None:
        """The peer is gone: nothing is sent any more, and whoever waits is told."""
        self.lost = reason
        self._connected.set()
        for waiting in self._waiting.values():
            waiting.answer = reason
            waiting.arrived.set()

    async def send(self, message: Any, metadata: MessageMetadata = None) -> None:
        """Send a message as it is, once the peer is connected; nothing happens when it is gone."""
        await self._connected.wait()
        if not self.lost:
            # Whoever reads from the peer notices by itself that it is gone, and says so.
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._write.send(SessionMessage(message, metadata))

    async def ask(
        self, method: str, params: Mapping[str, Any] | None, metadata: MessageMetadata = None
    ) -> dict[str, Any]:
        """Send a request of our own and wait for its result.

        Raises:
            LostError: The peer answers with an error, or is gone.
        """
        number = f"{PREFIX}{uuid.uuid4().hex}"
        waiting = self._waiting[number] = _Waiting()
        fields: dict[str, Any] = {"params": dict(params)} if params else {}
        try:
            await self.send(JSONRPCRequest(jsonrpc="2.0", id=number, method=method, **fields), metadata)
            if self.lost:
                raise LostError(self.lost)
            await waiting.arrived.wait()
        finally:
            del self._waiting[number]
        if isinstance(waiting.answer, str):
            raise LostError(waiting.answer)
        return waiting.answer

    def settles(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        """Whether a message answers a request of ours; it then goes to whoever waits for it."""
        number = str(message.id)
        if waiting := self._waiting.get(number):
            waiting.answer = message.result if isinstance(message, JSONRPCResponse) else message.error.message
            waiting.arrived.set()
        # Answers that nobody waits for any more are ours as well.
        return number.startswith(PREFIX)
