"""One DVC stage as one Prefect task, and several of them in order: what the flows are made of.

DVC owns the graph and decides what is stale; Prefect gives each stage a task with a log,
a state and a place in the schedule. Nothing here knows what the stages are.
"""

import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed

from envace.errors import EnvaceError
from flows.pipeline import up_to_date
from flows.process import streamed


@task(cache_policy=NO_CACHE, persist_result=False)
def reproduce(stage: str, known: bool = False) -> State:
    """Bring one stage up to date; its upstream stages must be already.

    Args:
        stage: Its name.
        known: It is up to date, so that DVC need not be asked.

    Runs inline, never through `.submit()`: only the main thread receives the signal of a
    cancellation, and from another thread DVC and its trainer would be left running.
    """
    if known:
        get_run_logger().info("Stage '%s' didn't change, skipping", stage)
        return Completed(name="Cached")
    code, lines = logged([sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", stage])
    if code:
        return Failed(message=f"stage {stage}: {reason(lines)}")
    ran = any(line.startswith(f"Running stage '{stage}'") for line in lines)
    return Completed(name="Completed" if ran else "Cached")


def logged(
    command: Sequence[str], cwd: Path | None = None, lock: Path | None = None
) -> tuple[int, list[str]]:
    """Run a command in its place on the GPU; each line goes to the run's log when it is printed.

    Args:
        command: With its arguments.
        cwd: Its folder; the current one when None.
        lock: Only on a worker of a cluster: what the flow holds while it runs. The command ends with the
            flow, and its place is the cluster's to give, not the server's.

    Returns:
        Its exit code and its lines.
    """
    logger = get_run_logger()
    lines: list[str] = []
    place = nullcontext() if lock else one_gpu()
    with place, streamed(command, os.environ | stage_environment(), cwd, lock) as process:
        for line in process.stdout or ():
            if line.strip():
                logger.info(line.rstrip())
                lines.append(line.strip())
        return process.wait(), lines


def one_gpu() -> AbstractContextManager[None]:
    """The place on the GPU that flows of one server share; a flow with a server of its own has it alone."""
    return concurrency("gpu", lease_duration=60) if PREFECT_API_URL.value() else nullcontext()


def stage_environment() -> dict[str, str]:
    """The stage's `python` is the one that runs this flow, whatever a worker's PATH says, and
    its lines arrive as they are printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"PATH": path, "PYTHONUNBUFFERED": "1"}


def reason(lines: list[str]) -> str:
    """The last line that says something: the stage's own message rather than DVC's account of it."""
    said = [line for line in lines if not line.startswith(("ERROR: failed to reproduce", "> ", "Running "))]
    return (said or lines or ["it printed nothing"])[-1]


def run_stages(stages: Iterable[str], prefix: str = "") -> tuple[list[dict[str, Any]], State | None]:
    """Reproduce stages of the DVC project in the current folder, in order.

    Args:
        stages: Their names, each after those it depends on.
        prefix: What to put in front of a stage's name to tell two runs of it apart.

    Returns:
        A row for each stage that was tried (stage, status, seconds), and the state of the one that
        failed, which is the last; None when all are up to date.
    """
    rows: list[dict[str, Any]] = []
    known: set[str] = set()
    # Where DVC cannot say, the stage whose fault it is will.
    with suppress(EnvaceError):
        known = up_to_date()
    for stage in stages:
        started, name = time.monotonic(), prefix + stage
        state = reproduce.with_options(name=name, task_run_name=name)(
            stage, stage in known, return_state=True
        )
        seconds = round(time.monotonic() - started, 1)
        rows.append({"stage": name, "status": state.name, "seconds": seconds})
        if not state.is_completed():
            return rows, state
    return rows, None
