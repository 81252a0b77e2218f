"""What a Prefect server needs to run these flows: pool, queue, limit, and an end for dead runs."""

import contextlib
import os
from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.workers.process import ProcessWorker

from flows.address import wait_until

POOL = "gpu-local"
"""Work pool of processes on this machine; one run at a time."""
QUEUE = "gpu"
"""Its queue."""
LIMIT = "gpu"
"""Global concurrency limit that a stage occupies while it runs, from whatever pool."""
ZOMBIES = "dead flow runs"
"""Name of the automation."""
SILENCE = timedelta(seconds=95)
"""A run that gives no sign for so long is dead: three heartbeats and a little."""
CANCELLING = 40.0
"""Seconds a cancelled run has to end: the 30 s that a worker gives it, and a little."""

_BEAT = "prefect.flow-run.heartbeat"
_ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")
_OPEN = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


def configure(address: str) -> None:
    """Create what is missing; what is there already stays as its owner changed it.

    Args:
        address: The server's interface for programs.
    """
    with temporary_settings({PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        with contextlib.suppress(ObjectAlreadyExists):
            client.create_work_pool(
                WorkPoolCreate(
                    name=POOL,
                    type=ProcessWorker.type,
                    base_job_template=ProcessWorker.get_default_base_job_template(),
                    concurrency_limit=1,
                )
            )
        try:
            client.read_work_queue_by_name(QUEUE, work_pool_name=POOL)
        except ObjectNotFound:
            client.create_work_queue(QUEUE, work_pool_name=POOL)
        try:
            client.read_global_concurrency_limit_by_name(LIMIT)
        except ObjectNotFound:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=LIMIT, limit=1))
        if not client.read_automations_by_name(ZOMBIES):
            client.create_automation(_zombies())


def _zombies() -> AutomationCore:
    """Without it, a run whose process and worker were killed together stays Running, and the pool
    with its limit of one never runs anything again."""
    return AutomationCore(
        name=ZOMBIES,
        description="A run that gave no sign of life for a while is marked as crashed.",
        trigger=EventTrigger(
            after={_BEAT},
            expect={_BEAT, *(f"prefect.flow-run.{end}" for end in _ENDS)},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[
            ChangeFlowRunState.model_validate(
                {"state": StateType.CRASHED, "message": "no sign of life from its process"}
            )
        ],
    )


def deployed(address: str) -> set[str]:
    """Deployments that a server knows, `FLOW/NAME`."""
    with temporary_settings({PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        return {f"{client.read_flow(each.flow_id).name}/{each.name}" for each in client.read_deployments()}


def cancel_runs(address: str) -> int:
    """Cancel what runs in the pool and wait until its worker has ended it.

    Returns:
        How many runs there were.
    """
    with temporary_settings({PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        runs = _open_runs(client)
        for run in runs:
            client.set_flow_run_state(run.id, State(type=StateType.CANCELLING, message="services stop"))
        if runs:
            wait_until(lambda: not _open_runs(client), CANCELLING, every=1.0)
    return len(runs)


def _open_runs(client: SyncPrefectClient) -> list[FlowRun]:
    return client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_OPEN))),
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL])),
    )


def environment(address: str) -> dict[str, str]:
    """Environment of everything that talks to that server."""
    return os.environ | {"PREFECT_API_URL": address}
