"""`python -m flows.replicate`: the DVC graph, stage by stage, as one Prefect flow.

DVC owns the graph and decides what is stale; Prefect gives each stage a task with a log,
a state and a place in the schedule. Nothing here knows what the stages are.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed

from envace.errors import EnvaceError
from flows.address import require_server
from flows.pipeline import metrics, stage_names
from flows.process import streamed

REPORT = Path("reports/index.html")
"""Page that the last stage writes, relative to the checkout."""


@task(cache_policy=NO_CACHE, persist_result=False)
def reproduce(stage: str) -> State:
    """Bring one stage up to date; its upstream stages must be already.

    Runs inline, never through `.submit()`: only the main thread receives the signal of a
    cancellation, and from another thread DVC and its trainer would be left running.
    """
    logger = get_run_logger()
    lines: list[str] = []
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", stage]
    # Without a server of that limit there is nothing to wait for.
    with (
        concurrency("gpu", lease_duration=60),
        streamed(command, os.environ | stage_environment()) as process,
    ):
        for line in process.stdout or ():
            if line.strip():
                logger.info(line.rstrip())
                lines.append(line.strip())
        code = process.wait()
    if code:
        return Failed(message=f"stage {stage}: {reason(lines)}")
    ran = any(line.startswith(f"Running stage '{stage}'") for line in lines)
    return Completed(name="Completed" if ran else "Cached")


def stage_environment() -> dict[str, str]:
    """The stage's `python` is the one that runs this flow, whatever a worker's PATH says, and
    its lines arrive as they are printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"PATH": path, "PYTHONUNBUFFERED": "1"}


def reason(lines: list[str]) -> str:
    """The last line that says something: the stage's own message rather than DVC's account of it."""
    said = [line for line in lines if not line.startswith(("ERROR: failed to reproduce", "> ", "Running "))]
    return (said or lines or ["it printed nothing"])[-1]


@flow(name="replicate")
def replicate() -> State:
    """Reproduce every stage in order; the first failure ends the run."""
    try:
        stages = stage_names()
    except EnvaceError as error:
        return Failed(message=str(error))
    rows: list[dict[str, Any]] = []
    outcome: State = Completed(message="every stage is up to date")
    for stage in stages:
        started = time.monotonic()
        state = reproduce.with_options(name=stage, task_run_name=stage)(stage, return_state=True)
        seconds = round(time.monotonic() - started, 1)
        rows.append({"stage": stage, "status": state.name, "seconds": seconds})
        if not state.is_completed():
            outcome = Failed(message=state.message)
            break
    create_table_artifact(key="stages", table=rows, description="Stages of this run")
    create_table_artifact(key="metrics", table=metrics(), description="Metrics after this run")
    if REPORT.is_file():
        create_link_artifact(key="report", link=REPORT.resolve().as_uri(), link_text="The report")
    return outcome


def main() -> int:
    """Run the flow; one line and exit code 1 when a stage fails, 130 when interrupted."""
    try:
        require_server(PREFECT_API_URL.value())
        state = replicate(return_state=True)
    except EnvaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if state.is_completed():
        return 0
    print(f"error: {state.message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
