"""A flow run from the terminal: exit codes, and one line when it fails."""

import sys
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL

from envace.errors import EnvaceError
from flows.address import require_server


def run(flow: Flow[..., State], **parameters: Any) -> int:
    """Run a flow that returns its own state.

    Returns:
        0; 1 after a failure, which is one line; 130 when interrupted.
    """
    try:
        require_server(PREFECT_API_URL.value())
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
