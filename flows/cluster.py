"""Tasks of a flow on the workers of a Dask cluster."""

from typing import Any, ParamSpec, TypeVar, cast

from prefect import Flow
from prefect.task_runners import TaskRunner

from envace.errors import EnvaceError

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE = 10.0
"""Seconds a scheduler has to answer."""


def on_cluster(flow: Flow[P, R], address: str) -> Flow[P, R]:
    """The flow with its tasks submitted to a cluster.

    Args:
        flow: Whose tasks are submitted rather than called.
        address: Of a Dask scheduler that runs, such as `tcp://host:8786`.

    Raises:
        EnvaceError: `prefect-dask` is not installed, or no scheduler answers there.
    """
    try:
        from distributed import Client
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError as error:
        raise EnvaceError("a cluster needs prefect-dask", "pip install 'envace[cluster]'") from error
    try:
        Client(address, timeout=PATIENCE, set_as_default=False).close()
    except (OSError, ValueError) as error:
        raise EnvaceError(f"no Dask scheduler answers at {address}", "start one: dask scheduler") from error
    runner = cast(TaskRunner[Any], DaskTaskRunner(address=address))
    return flow.with_options(task_runner=runner)
