"""A flow run from the terminal: exit codes, and one line when it fails."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL

from envace.errors import EnvaceError
from flows.address import require_server
from flows.own_server import own_server


def run(
    flow: Flow[..., State],
    ahead: Callable[[], AbstractContextManager[object]] = nullcontext,
    /,
    **parameters: Any,
) -> int:
    """Run a flow that returns its own state.

    Args:
        flow: To be run.
        ahead: What can go on while a server of the flow's own starts. Any other server is there already,
            and may have to be asked for a place on the GPU before.
        parameters: Of the flow.

    Returns:
        0; 1 after a failure, which is one line; 130 when interrupted.
    """
    try:
        require_server(address := PREFECT_API_URL.value())
        with nullcontext() if address else own_server(ahead()):
            state: State = flow(**parameters, return_state=True)
    except EnvaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if state.is_completed():
        print(f"{state.name}: {state.message}")
        return 0
    print(f"error: {state.message}", file=sys.stderr)
    return 1
