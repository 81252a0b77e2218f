"""A Prefect server of a flow's own, for a run that is told of none: it starts while the work does.

Prefect can start one too, but then imports the server into the flow as well, and the flow waits for both.
"""

import atexit
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_LOGGING_TO_API_BATCH_INTERVAL,
    PREFECT_UI_URL,
    temporary_settings,
)

from envace.errors import EnvaceError
from flows.address import HOST, STARTING, answers, api, wait_until
from flows.process import streamed

QUIET = {
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    # One at a time, which is the default, the last are lost: the server ends while it writes one.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "1000",
}
"""What that server leaves undone or does at leisure: it takes time from the stage. Nobody can look at it
meanwhile, no automation would be heard, no block is used."""
TELLING = {PREFECT_LOGGING_TO_API_BATCH_INTERVAL: 10.0, PREFECT_UI_URL: ""}
"""How a flow tells it: the log now and then, and nobody of pages that are not there."""
_OWN: set[str] = set()
"""Addresses of such servers of this process."""


@contextmanager
def own_server(beside: AbstractContextManager[object]) -> Iterator[None]:
    """Flows of the block report to a server of their own, which ends with this process.

    Args:
        beside: Entered while the server starts, and left with the block.

    Raises:
        EnvaceError: The server does not come up.
    """
    address = api(port := _free_port())
    command = [sys.executable, "-m", "flows.own_server", str(port)]
    # Prefect's threads tell the rest when this process ends. What is registered first ends last.
    ending = ExitStack()
    atexit.register(ending.close)
    server = ending.enter_context(streamed(command, os.environ | QUIET, output=2))
    _OWN.add(address)
    with beside:
        wait_until(lambda: answers(address) or server.poll() is not None, STARTING)
        if not answers(address):
            raise EnvaceError("the flow's own Prefect server did not come up", "see what it printed")
        with temporary_settings({PREFECT_API_URL: address} | TELLING):
            yield


def shared_server() -> bool:
    """Whether flows report to a server that others use and look at, too."""
    return bool(address := PREFECT_API_URL.value()) and address not in _OWN


def _free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def serve(port: int) -> None:
    """Be that server: Prefect's interface for programs, and of its services those that record."""
    import uvicorn
    from prefect.server.api import server

    # Its queue of housekeeping is asked forty times a second, in threads, and a run leaves nothing to keep.
    vars(server)["background_worker"] = lambda *_, **__: nullcontext()
    uvicorn.run(server.create_app(ephemeral=True, final=True), host=HOST, port=port, log_level="error")


if __name__ == "__main__":
    serve(int(sys.argv[1]))
    os._exit(0)  # All is written; to take so large an interpreter apart takes a second.
