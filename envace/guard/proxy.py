"""`envace guard`: the relay between real transports, stdio or streamable HTTP on either side."""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server

from envace.engines.openai import read_key
from envace.errors import EnvaceError
from envace.guard.calls import GuardedCalls
from envace.guard.config import GuardConfig, Upstream
from envace.guard.guard import Guard
from envace.guard.http import create_app
from envace.guard.relay import Connect, Relay, Streams

HOST = "127.0.0.1"
"""Where HTTP is served; nobody else's business."""
TIMEOUT = httpx2.Timeout(30.0, read=300.0)
"""Seconds, as the SDK sets them itself: a server may hold a stream open for long without a word."""


def serve(config: GuardConfig, guard: Guard) -> None:
    """Serve until the client leaves, or over HTTP until interrupted.

    Raises:
        EnvaceError: A key or variable is not set, or the port is taken.
    """
    upstream = config.upstream
    connect = connector(upstream)
    handshake_only = config.port is not None or bool(upstream.url)

    def session() -> Relay:
        calls = GuardedCalls(guard, config.tools, config.rehearse.history, config.rehearse.context)
        return Relay(calls, upstream.name, handshake_only)

    if config.port is None:
        anyio.run(_serve_stdio, session(), connect)
    else:
        _serve_http(config.port, upstream.name, session, connect)


def connector(upstream: Upstream) -> Connect:
    """What opens a connection to the server, with its secrets read once.

    Raises:
        EnvaceError: A key or variable is not set.
    """
    if upstream.url:
        key = read_key(upstream.key_env)
        return partial(_http, upstream.url, {"Authorization": f"Bearer {key}"} if key else {})
    missing = [name for name in upstream.pass_env if name not in os.environ]
    if missing:
        raise EnvaceError(f"upstream.pass_env: {missing[0]} is not set", "export it, or take it off the list")
    program, *arguments = upstream.command
    passed = {name: os.environ[name] for name in upstream.pass_env}
    return partial(
        stdio_client, StdioServerParameters(command=program, args=arguments, env=upstream.env | passed)
    )


@asynccontextmanager
async def _http(url: str, headers: dict[str, str]) -> AsyncIterator[Streams]:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


async def _serve_stdio(relay: Relay, connect: Connect) -> None:
    caught = 0

    async def leave_on_signal(scope: anyio.CancelScope) -> None:
        nonlocal caught
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                caught = number
                scope.cancel()

    async with stdio_server() as streams:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave_on_signal, tasks.cancel_scope)
            await relay.run(streams, connect)
            tasks.cancel_scope.cancel()
        if caught:
            # The upstream server is stopped by now. The thread that waits for a line from the client
            # cannot be interrupted, and an orderly end would wait for it.
            os._exit(128 + caught)


def _serve_http(port: int, name: str, session: Callable[[], Relay], connect: Connect) -> None:
    import uvicorn

    try:
        sock = socket.create_server((HOST, port))
    except OSError as error:
        raise EnvaceError(
            f"cannot listen on {HOST}:{port}: {error.strerror}", "choose another port"
        ) from error
    app = create_app(session, connect)
    # Streams that clients hold open would keep a stopped server waiting for ever.
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    with sock:
        print(f"guarding {name} on http://{HOST}:{sock.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
        uvicorn.Server(config).run(sockets=[sock])
