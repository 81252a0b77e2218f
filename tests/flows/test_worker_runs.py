"""Runs of a deployment by a real worker: cancelled, or their processes killed; then run again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
from throwaway import ROOT, dvc, free_port, run_module

from flows import daemons
from flows.address import api, wait_until

pytestmark = pytest.mark.slow

STEPS = 3000
TRAINER = f"""
import json, os, pathlib, subprocess, sys, time
step = pathlib.Path(".scratch/step")
step.parent.mkdir(exist_ok=True)
start = int(step.read_text()) if step.exists() else 0
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
pathlib.Path(".scratch/pids").write_text(f"{{os.getpid()}} {{child.pid}}")
for number in range(start, {STEPS}):
    if not pathlib.Path(".scratch/hurry").exists():
        time.sleep(0.1)
    fresh = step.with_suffix(".new")
    fresh.write_text(str(number + 1))
    fresh.replace(step)
child.kill()
pathlib.Path(f"score-{{sys.argv[1]}}.json").write_text(json.dumps({{"steps": {STEPS}}}))
pathlib.Path(f".scratch/start-{{sys.argv[1]}}").write_text(str(start))
step.unlink()
"""


@dataclass
class Services:
    """What `flows.up` started for one test."""

    home: Path
    """Prefect's home."""
    port: int
    """Where the server listens."""

    def up(self) -> None:
        """Start what is missing."""
        done = run_module(self.home, "flows.up", str(self.port))
        assert done.returncode == 0, done.stderr

    def process(self, name: str) -> psutil.Process:
        """A service's process."""
        daemon = daemons.recorded(name, self.home / "services")
        found = daemon and daemons.running(daemon)
        assert found
        return found

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """The answer of the server."""
        from prefect.client.orchestration import get_client
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: api(self.port)}), get_client(sync_client=True) as client:
            return question(client)

    def begin(self) -> UUID:
        """Start a run by the worker and wait until its second stage trains."""
        for left in Path(".scratch").glob("pids"):
            left.unlink()
        deployment = self.ask(lambda client: client.read_deployment_by_name("replicate/default"))
        run = self.ask(lambda client: client.create_flow_run_from_deployment(deployment.id))
        # A killed run keeps its place on the GPU until its lease of a minute is over.
        assert wait_until(lambda: Path(".scratch/pids").exists(), 240), self.told(run.id)
        assert wait_until(lambda: Path(".scratch/step").exists(), 10)
        return run.id

    def state(self, run: UUID) -> str:
        """The type of a run's state."""
        state = self.ask(lambda client: client.read_flow_run(run)).state
        return str(state.type.value)

    def told(self, run: UUID) -> str:
        """What a run's state says, for whoever wonders why it is not the one expected."""
        state = self.ask(lambda client: client.read_flow_run(run)).state
        return f"{state.name}: {state.message}"

    def ends(self, run: UUID, state: str, seconds: float) -> bool:
        """Whether a run comes to a state in time."""
        return wait_until(lambda: self.state(run) == state, seconds, every=1.0)


@pytest.fixture
def services(project: Path, tmp_path: Path) -> Iterator[Services]:
    """Server and worker for the project in the current folder, whose stages train for a while."""
    (project / "score.py").write_text(TRAINER)
    (project / "flows").symlink_to(ROOT / "flows")
    (project / "prefect.yaml").write_bytes((ROOT / "prefect.yaml").read_bytes())
    found = Services(tmp_path / "home", free_port())
    try:
        found.up()
        yield found
    finally:
        run_module(found.home, "flows.down")


def trainers() -> list[psutil.Process]:
    """The trainer and its child."""
    return [psutil.Process(int(pid)) for pid in Path(".scratch/pids").read_text().split()]


def gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def engine(services: Services) -> psutil.Process:
    """The flow's own process, a child of the worker."""
    [found] = services.process("worker").children()
    return found


def rerun_resumes_and_completes(services: Services) -> None:
    """A new run is not held up, starts where the killed one stopped, and ends as an uninterrupted one."""
    stopped = int(Path(".scratch/step").read_text())
    run = services.begin()
    Path(".scratch/hurry").touch()
    assert services.ends(run, "COMPLETED", 90), services.told(run)
    assert int(Path(".scratch/start-a").read_text()) >= stopped > 0
    assert Path("score-a.json").read_text() == Path("score-b.json").read_text() == f'{{"steps": {STEPS}}}'
    dvc("repro", cwd=Path())  # nothing left to do, no lock in the way
    status = subprocess.run([sys.executable, "-m", "dvc", "status"], capture_output=True, text=True)
    assert "up to date" in status.stdout


def test_a_cancelled_run_leaves_no_process_and_the_next_resumes(services: Services) -> None:
    run = services.begin()
    tree = [*trainers(), *services.process("worker").children(recursive=True)]
    done = run_module(
        services.home, "prefect", "flow-run", "cancel", str(run), PREFECT_API_URL=api(services.port)
    )
    assert done.returncode == 0, done.stderr
    assert wait_until(lambda: gone(tree), 10)
    assert services.ends(run, "CANCELLED", 30)
    rerun_resumes_and_completes(services)


def test_a_killed_flow_is_marked_and_the_next_resumes(services: Services) -> None:
    run = services.begin()
    tree = trainers()
    engine(services).kill()
    assert wait_until(lambda: gone(tree), 10)
    assert services.ends(run, "CRASHED", 30), services.told(run)
    rerun_resumes_and_completes(services)


def ends_and_another_completes(services: Services, run: UUID) -> None:
    """The run goes on to its end or is marked as crashed; it never stays as it was."""
    Path(".scratch/hurry").touch()
    assert wait_until(lambda: services.state(run) in ("COMPLETED", "CRASHED"), 240, every=1.0)
    deployment = services.ask(lambda client: client.read_deployment_by_name("replicate/default"))
    again = services.ask(lambda client: client.create_flow_run_from_deployment(deployment.id)).id
    assert services.ends(again, "COMPLETED", 150), services.told(again)
    assert Path("score-a.json").read_text() == Path("score-b.json").read_text() == f'{{"steps": {STEPS}}}'


def test_a_killed_worker_is_replaced_and_its_run_ends(services: Services) -> None:
    run = services.begin()
    worker = services.process("worker")
    worker.kill()
    services.up()
    assert services.process("worker").pid != worker.pid
    ends_and_another_completes(services, run)


def test_a_killed_server_comes_back_with_its_runs(services: Services) -> None:
    run = services.begin()
    server = services.process("server")
    for process in (*server.children(recursive=True), server):
        process.kill()
    services.up()
    ends_and_another_completes(services, run)


def test_when_all_is_killed_at_once_the_run_is_found_dead_and_the_pool_is_free(services: Services) -> None:
    run = services.begin()
    tree = trainers()
    worker, server, flow = services.process("worker"), services.process("server"), engine(services)
    for process in (worker, flow, *server.children(recursive=True), server):
        os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: gone(tree), 10)
    services.up()
    assert services.state(run) == "RUNNING"
    assert services.ends(run, "CRASHED", 200), services.told(run)
    rerun_resumes_and_completes(services)
