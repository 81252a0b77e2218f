"""Run the application on a port: in a thread for tests and benchmarks, or for good."""

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envace.errors import EnvaceError
from envace.serve.app import create_app
from envace.serve.backend import ChatBackend
from envace.serve.limits import Limits
from envace.serve.local import LocalService
from envace.serve.service import Service

if TYPE_CHECKING:
    import uvicorn

KEY_VARIABLE = "ENVACE_API_KEY"
"""Environment variable with the bearer key; required beyond loopback."""


def is_loopback(host: str) -> bool:
    """True for `localhost` and the loopback addresses, v4 or v6."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_server(backend: ChatBackend | Service, host: str, limits: Limits | None = None) -> "uvicorn.Server":
    """A server that is not started yet; once told to stop, it answers what it has begun.

    Raises:
        EnvaceError: when the host can be reached from outside and no key is set.
    """
    import uvicorn

    key = os.environ.get(KEY_VARIABLE, "")
    if not is_loopback(host) and not key:
        raise EnvaceError(f"{host} can be reached from outside", f"set {KEY_VARIABLE}, or serve on 127.0.0.1")
    limits = limits or Limits()
    service = backend if isinstance(backend, Service) else LocalService(backend, limits.running)
    config = uvicorn.Config(
        create_app(service, key, limits),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that a busy port is one clear line and port 0 is known at once.

    Raises:
        EnvaceError: when the port is taken or the host unknown.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise EnvaceError(
            f"cannot listen on {host}:{port}: {error}", "choose another host or port"
        ) from error


@contextmanager
def served(
    backend: ChatBackend | Service, host: str = "127.0.0.1", port: int = 0, limits: Limits | None = None
) -> Iterator[str]:
    """Serve `backend` from a thread while the block runs; yields the base URL ending in `/v1`."""
    server = make_server(backend, host, limits)
    with listen(host, port) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        try:
            while not server.started:
                if not thread.is_alive():
                    raise EnvaceError("the server stopped while it started", "see the lines above")
                time.sleep(0.01)
            yield base_url(host, sock)
        finally:
            server.should_exit = True
            thread.join(timeout=10)


def serve_forever(
    backend: ChatBackend | Service, host: str = "127.0.0.1", port: int = 8000, limits: Limits | None = None
) -> None:
    """Serve `backend` until SIGTERM or SIGINT; the key, where set, comes from `ENVACE_API_KEY`."""
    server = make_server(backend, host, limits)
    with listen(host, port) as sock:
        print(f"serving on {base_url(host, sock)}", flush=True)
        server.run(sockets=[sock])


def base_url(host: str, sock: socket.socket) -> str:
    """Where clients find the server behind a bound socket."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{sock.getsockname()[1]}/v1"
