"""Where a server answers, or could: ports and health, each problem in one line."""

import socket
import time
from collections.abc import Callable

import httpx

from envace.errors import EnvaceError

HOST = "127.0.0.1"
LETTING_GO = 3.0
"""Seconds in which the system takes a port from a process that was killed."""
STARTING = 180.0
"""Seconds a server has to answer; on an empty home it first makes its database."""


def api(port: int) -> str:
    """Address of the interface for programs of a server on this machine."""
    return f"http://{HOST}:{port}/api"


def require_free(port: int) -> None:
    """See that nothing listens on a port; a process that was just killed is given time to let go of it.

    Raises:
        EnvaceError: Something does, or the port may not be used.
    """
    if not 0 <= port < 2**16:
        raise EnvaceError(f"port {port} cannot be used", "choose one below 65536")
    reasons: list[OSError] = []

    def free() -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                reasons.append(error)
                return False
            return True

    if not wait_until(free, LETTING_GO):
        raise EnvaceError(f"port {port} cannot be used: {reasons[-1]}", "choose another: make ui PORT=4201")


def answers(address: str) -> bool:
    """Whether a Prefect server answers under the address of its interface for programs."""
    try:
        return httpx.get(f"{address}/health", timeout=5, trust_env=False).is_success
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def require_server(address: str | None) -> None:
    """See that the server answers that the settings name; none is named, none is needed.

    Raises:
        EnvaceError: It does not.
    """
    if address and not answers(address):
        raise EnvaceError(f"no Prefect server at {address}", "start one (make ui), or unset PREFECT_API_URL")


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.2) -> bool:
    """Ask until a condition holds; whether it did in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(every)
    return True
