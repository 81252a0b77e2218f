"""What answers behind the HTTP application: a backend in this process, or another server."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Answer:
    """An answer that has begun."""

    body: bytes
    """All of it, or its first event."""
    rest: AsyncGenerator[bytes, None] | None = None
    """The further events of a stream; to be closed."""
    status: int = 200
    """HTTP status."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers besides those of the content."""


@dataclass(frozen=True)
class Tokens:
    """What an answer cost."""

    prompt: int = 0
    """Tokens read."""
    act: int = 0
    """Tokens of the turns returned."""
    rehearse: int = 0
    """Tokens written in private."""

    def plus(self, prompt: int, act: int, rehearse: int = 0) -> "Tokens":
        """With those of one more answer."""
        return Tokens(self.prompt + prompt, self.act + act, self.rehearse + rehearse)


@runtime_checkable
class Service(Protocol):
    """Anything that answers chat completions as they stand on the wire."""

    async def models(self) -> list[str]:
        """Names a request may ask for, the default first."""
        ...

    async def answer(self, body: bytes) -> Answer:
        """Answer the body of a request; whoever gives up cancels it.

        Raises:
            RequestError: It is not answered.
        """
        ...

    def spent(self) -> Tokens:
        """Tokens so far, over all requests."""
        ...

    async def close(self) -> None:
        """Let go of threads and connections."""
        ...
