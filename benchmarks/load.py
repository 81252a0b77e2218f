"""Load on a chat server: clients that ask again as soon as they are answered."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

import httpx

Body = Callable[[int], dict[str, Any]]
"""The request of a number."""


@dataclass
class Outcome:
    """What a time of load brought."""

    seconds: float = 0.0
    """Until the last answer."""
    times: list[float] = field(default_factory=list)
    """Seconds of every request that was answered."""
    tokens: int = 0
    """Tokens written, private ones included."""
    errors: Counter[str] = field(default_factory=Counter)
    """What went wrong, how often."""

    @property
    def requests(self) -> int:
        """All of them."""
        return len(self.times) + self.errors.total()

    @property
    def ok_share(self) -> float:
        """Share of requests answered in full."""
        return len(self.times) / self.requests

    @property
    def tokens_per_second(self) -> float:
        """Tokens written a second."""
        return self.tokens / self.seconds

    def percentile(self, percent: int) -> float:
        """Seconds in which that many percent were answered."""
        return quantiles(self.times, n=100, method="inclusive")[percent - 1]


def load(url: str, clients: int, seconds: float, body: Body) -> Outcome:
    """Let so many clients ask for so long; who is being answered at the end is waited for.

    Args:
        url: Base URL, ending in `/v1`.
        clients: How many ask at once.
        seconds: How long new requests are made.
        body: What they ask; a request with `stream` should ask for its usage.
    """
    return asyncio.run(_load(url, clients, seconds, body))


async def _load(url: str, clients: int, seconds: float, body: Body) -> Outcome:
    outcome, numbers = Outcome(), iter(range(10**9))
    begun = time.perf_counter()
    async with httpx.AsyncClient(timeout=600, limits=httpx.Limits()) as http:

        async def client() -> None:
            while time.perf_counter() < begun + seconds:
                asked = time.perf_counter()
                try:
                    tokens = await _ask(http, url, body(next(numbers)))
                    outcome.tokens += tokens  # in a line of its own: `+= await` would lose the others' tokens
                    outcome.times.append(time.perf_counter() - asked)
                except (httpx.HTTPError, ValueError, LookupError) as error:
                    outcome.errors[f"{type(error).__name__}: {error}"[:200]] += 1

        await asyncio.gather(*[client() for _ in range(clients)])
    outcome.seconds = time.perf_counter() - begun
    return outcome


async def _ask(http: httpx.AsyncClient, url: str, body: dict[str, Any]) -> int:
    """Tokens written for one request; anything but a whole answer raises."""
    last, usage = "", {}
    async with http.stream("POST", f"{url}/chat/completions", json=body) as reply:
        if reply.status_code != 200:
            raise ValueError(f"{reply.status_code} {(await reply.aread()).decode()}")
        if not body.get("stream"):
            usage = json.loads(await reply.aread())["usage"]
        else:
            async for line in reply.aiter_lines():
                if '"usage"' in line and (found := json.loads(line[6:]).get("usage")):
                    usage = found
                last = line or last
            if last != "data: [DONE]":
                raise ValueError(f"a stream ended with {last[:100]!r}")
    private = (usage.get("completion_tokens_details") or {}).get("rehearsal_tokens") or 0
    return usage["completion_tokens"] + private
