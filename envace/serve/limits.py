"""What the server takes on: sizes, times, how many requests at once, how many a minute."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from envace.serve.errors import RequestError

MOST_BUDGET = 64
"""Largest rehearsal budget a request may ask for, unless the server's own is larger."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server."""

    body_bytes: int = 10_000_000
    """Longest body."""
    body_seconds: float = 30.0
    """Time in which a body has to arrive."""
    seconds: float = 600.0
    """Time in which a request has to be answered, its time in line included."""
    running: int = 64
    """Requests at work at once."""
    waiting: int = 256
    """Requests in line behind them; more are turned away."""
    per_minute: int = 0
    """Requests a minute from one address, as many of them at once; 0 for no limit."""


class Gate:
    """Lets so many requests work at once and so many stand in line."""

    def __init__(self, running: int, waiting: int) -> None:
        """Nobody is in yet."""
        self.most_waiting = waiting
        self.running = 0
        """Requests at work."""
        self.waiting = 0
        """Requests in line."""
        self._slots = asyncio.Semaphore(running)

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Work inside; first come, first served.

        Raises:
            RequestError: The line is full.
        """
        if self._slots.locked() and self.waiting >= self.most_waiting:
            raise RequestError(
                f"{self.running} requests are at work and {self.waiting} in line", "overloaded", 429, 1
            )
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._slots.release()


class Rate:
    """A bucket of requests for each address, filled evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Buckets of `per_minute`, full at first; 0 lets everything pass. `clock` is in seconds."""
        self.per_minute = per_minute
        self._clock = clock
        self._free_at: dict[str, float] = {}

    def take(self, address: str) -> None:
        """Count one request.

        Raises:
            RequestError: The bucket is empty.
        """
        if not self.per_minute:
            return
        now, each = self._clock(), 60 / self.per_minute
        # Kept as the time at which the bucket is full again; what is full is forgotten.
        self._free_at = {key: at for key, at in self._free_at.items() if at > now}
        full_at = self._free_at.get(address, now)
        wait = full_at + each - (now + 60)
        if wait > 1e-9:
            raise RequestError(
                f"more than {self.per_minute} requests a minute", "rate_limit_exceeded", 429, int(wait) + 1
            )
        self._free_at[address] = full_at + each
