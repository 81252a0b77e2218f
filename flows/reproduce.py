"""One DVC stage as one Prefect task, and several of them in order: what the flows are made of.

DVC owns the graph, decides what is stale and runs it, in one process; Prefect gives each stage a task
with a log, a state and its seconds. Nothing here knows what the stages are.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from subprocess import Popen
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.states import Completed, Failed

from flows.own_server import shared_server
from flows.pipeline import stage_names
from flows.process import end_group, streamed
from flows.progress import Progress


@dataclass(frozen=True)
class Work:
    """DVC on its way through stages of the project in the current folder."""

    stages: Sequence[str]
    """Their names, each after those it depends on."""
    process: "Popen[str]"
    """DVC."""
    begun: float
    """When it was started, on the monotonic clock."""


@contextmanager
def dvc_repro(only: Sequence[str] = ()) -> Iterator[Work]:
    """DVC reproducing stages; it ends with the block.

    Args:
        only: Names of the stages, each after those it depends on; none for all.

    Raises:
        EnvaceError: This is no DVC checkout, or its dvc.yaml is invalid.
    """
    # Read before DVC starts, which writes dvc.lock in place. Named one by one, it reads dvc.yaml for each.
    stages, chosen = (only, ["--single-item", *only]) if only else (stage_names(), [])
    with started([sys.executable, "-m", "dvc", "--wait-for-lock", "repro", *chosen]) as process:
        yield Work(stages, process, time.monotonic())


def run_stages(work: Work, prefix: str = "") -> tuple[list[dict[str, Any]], State | None]:
    """Follow DVC, a task for each stage, to its end or the first failure.

    Args:
        work: What it is at.
        prefix: What to put in front of a stage's name to tell two runs of it apart.

    Returns:
        A row for each stage that was tried (stage, status, seconds), and the state of the one that
        failed, which is the last; None when all are up to date.
    """
    rows: list[dict[str, Any]] = []
    begun = work.begun
    for stage, lines in by_stage(output(work.process), work.stages):
        name = prefix + stage
        follow = reproduce.with_options(name=name, task_run_name=name)
        state = follow(stage, lines, work.process, return_state=True)
        ended = time.monotonic()
        rows.append({"stage": name, "status": state.name, "seconds": round(ended - begun, 1)})
        if not state.is_completed():
            return rows, state
        begun = ended
    return rows, None


@task(cache_policy=NO_CACHE, persist_result=False)
def reproduce(stage: str, lines: Iterable[str], process: "Popen[str]") -> State:
    """Follow DVC while it brings one stage up to date.

    Args:
        stage: Its name.
        lines: What is printed meanwhile.
        process: DVC; it has ended when this stage was the last, or failed.

    Runs inline, never through `.submit()`: only the main thread receives the signal of a
    cancellation, and from another thread DVC and its trainer would be left running.
    """
    try:
        said = told(lines, stage)
    except BaseException:
        end_group(process)  # Before anything is reported to a server, which may not answer.
        raise
    if process.returncode:
        return Failed(message=f"stage {stage}: {reason(said)}")
    ran = any(line.startswith(f"Running stage '{stage}'") for line in said)
    return Completed(name="Completed" if ran else "Cached")


def by_stage(lines: Iterable[str], stages: Sequence[str]) -> Iterator[tuple[str, Iterator[str]]]:
    """What DVC prints of each stage, as it comes; what it prints before any is the first's."""
    current = stages[0]

    def stage_of(line: str) -> str:
        nonlocal current
        begun = (name for name in stages if line.startswith((f"Running stage '{name}'", f"Stage '{name}' ")))
        current = next(begun, current)
        return current

    # The first begins before DVC says anything, as it has to where DVC never does.
    return groupby(chain([""], lines), stage_of)


def logged(
    name: str, command: Sequence[str], cwd: Path | None = None, lock: Path | None = None
) -> tuple[int, list[str]]:
    """Run a command in its place on the GPU; each line goes to the run's log when it is printed.

    Args:
        name: What its progress is shown under.
        command: With its arguments.
        cwd: Its folder; the current one when None.
        lock: Only on a worker of a cluster: what the flow holds while it runs. The command ends with the
            flow, and its place is the cluster's to give, not the server's.

    Returns:
        Its exit code and its lines.
    """
    with started(command, cwd, lock) as process:
        lines = told(output(process), name)
        return process.returncode, lines


@contextmanager
def started(
    command: Sequence[str], cwd: Path | None = None, lock: Path | None = None
) -> Iterator["Popen[str]"]:
    """A command in its place on the GPU, as `logged` runs it, to be read from."""
    place = nullcontext() if lock else one_gpu()
    with place, streamed(command, os.environ | stage_environment(), cwd, lock) as process:
        yield process


def output(process: "Popen[str]") -> Iterator[str]:
    """Lines of a process as it prints them; after the last, its exit code is known, and not before."""
    yield from process.stdout or ()
    process.wait()


def told(lines: Iterable[str], name: str) -> list[str]:
    """Log lines as they come, and show the progress they tell of; returns those that say something.

    Args:
        lines: As they are printed.
        name: What progress is shown under.
    """
    logger, progress, said = get_run_logger(), Progress(name), []
    for line in lines:
        if line.strip():
            logger.info(line.rstrip())
            progress.see(line)
            said.append(line.strip())
    return said


@contextmanager
def one_gpu() -> Iterator[None]:
    """The place on the GPU that flows of one server share; a flow with a server of its own has it alone."""
    if not shared_server():
        yield
        return
    get_run_logger().info("Takes the place on the GPU, or waits for it (concurrency limit 'gpu')")
    with concurrency("gpu", lease_duration=60):
        yield


def stage_environment() -> dict[str, str]:
    """The stage's `python` is the one that runs this flow, whatever a worker's PATH says, and
    its lines arrive as they are printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"PATH": path, "PYTHONUNBUFFERED": "1"}


def reason(lines: list[str]) -> str:
    """The last line that says something: the stage's own message rather than DVC's account of it."""
    said = [line for line in lines if not line.startswith(("ERROR: failed to reproduce", "> ", "Running "))]
    return (said or lines or ["it printed nothing"])[-1]
