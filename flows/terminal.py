"""A flow run from the terminal: exit codes, and one line when it fails."""

import sys
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.settings import (
    PREFECT_API_BLOCKS_REGISTER_ON_START,
    PREFECT_API_URL,
    PREFECT_LOGGING_TO_API_BATCH_INTERVAL,
    PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED,
    temporary_settings,
)

from envace.errors import EnvaceError
from flows.address import require_server

OWN_SERVER = {
    PREFECT_API_BLOCKS_REGISTER_ON_START: False,
    PREFECT_LOGGING_TO_API_BATCH_INTERVAL: 10.0,
    PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED: False,
}
"""Settings for a server of the flow's own, which ends with it: nobody can look at the log meanwhile, and no
automation would be heard; no block is used. Whatever that server does takes time from the stage."""


def run(flow: Flow[..., State], **parameters: Any) -> int:
    """Run a flow that returns its own state.

    Returns:
        0; 1 after a failure, which is one line; 130 when interrupted.
    """
    try:
        require_server(address := PREFECT_API_URL.value())
        with temporary_settings({} if address else OWN_SERVER):
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
