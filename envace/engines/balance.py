"""Several equal servers: the next request goes to the least busy one that is not resting.

A server that fails rests, longer after each failure in a row (exponential back-off with jitter,
or what its `Retry-After` asks for); one success ends that.
"""

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class ServerFailure(Exception):  # noqa: N818 - an outcome the caller retries, not a bug
    """The server is to blame, not the request: unreachable, overloaded or broken.

    Args:
        reason: What happened, in one line.
        retry_after: Seconds the server asked for, 0 where it did not.
    """

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        self.retry_after = retry_after
        super().__init__(reason)


@dataclass(frozen=True)
class Backoff:
    """How long a failing server rests."""

    first: float = 0.5
    """Seconds after the first failure; doubled by each further one in a row."""
    longest: float = 30.0
    """Seconds at most, whatever the server asks for."""

    def seconds(self, failures: int, retry_after: float, draw: float) -> float:
        """Rest after so many failures in a row.

        Args:
            failures: In a row, from 1.
            retry_after: What the server asked for: at least that long.
            draw: Jitter in [0, 1): a rest is between half and the whole of what was due, so that
                clients do not come back in step.
        """
        due = self.first * 2 ** min(failures - 1, 30) * (0.5 + draw / 2)
        return min(self.longest, max(due, retry_after))


@dataclass
class Endpoint:
    """One server and how it fares."""

    url: str
    """Base URL."""
    in_flight: int = 0
    """Requests it has now."""
    requests: int = 0
    """Requests it has had."""
    failures: int = 0
    """Failures in a row; a burst that fails together is one."""
    ready_at: float = -math.inf
    """Time at which its rest ends."""


class Balancer:
    """Lends endpoints to requests; safe to use from many threads."""

    def __init__(
        self, urls: Sequence[str], backoff: Backoff, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Balance over `urls`; `clock` tells the time in seconds."""
        self.endpoints = [Endpoint(url) for url in urls]
        self.backoff = backoff
        self.clock = clock
        self._lock = threading.Lock()
        self._jitter = random.Random()

    @contextmanager
    def lend(self) -> Iterator[tuple[str, float]]:
        """Lend the best endpoint for one request.

        Yields:
            Its URL, and the seconds to wait before using it: 0 unless all are resting.

        Raises:
            ServerFailure: Whatever of it the block raises, after the endpoint was put to rest.
        """
        endpoint, wait, before = self._take()
        try:
            yield endpoint.url, wait
        except ServerFailure as failure:
            self._rest(endpoint, failure.retry_after, before)
            raise
        else:
            endpoint.failures = 0
        finally:
            with self._lock:
                endpoint.in_flight -= 1

    def _take(self) -> tuple[Endpoint, float, int]:
        """An endpoint, the seconds to wait, and its failures in a row so far."""
        with self._lock:
            now = self.clock()
            waits = [max(0.0, endpoint.ready_at - now) for endpoint in self.endpoints]
            wait, _, _, index = min(
                (wait, endpoint.in_flight, endpoint.requests, index)
                for index, (wait, endpoint) in enumerate(zip(waits, self.endpoints, strict=True))
            )
            endpoint = self.endpoints[index]
            endpoint.in_flight += 1
            endpoint.requests += 1
            return endpoint, wait, endpoint.failures

    def _rest(self, endpoint: Endpoint, retry_after: float, before: int) -> None:
        with self._lock:
            if endpoint.failures == before:  # else others that were under way with it failed or passed
                endpoint.failures += 1
            rest = self.backoff.seconds(max(1, endpoint.failures), retry_after, self._jitter.random())
            endpoint.ready_at = max(endpoint.ready_at, self.clock() + rest)
