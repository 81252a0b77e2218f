"""`make ui` and `make down` with a real server and worker, and what they say when they cannot."""

import os
import signal
import socket
import threading
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from throwaway import ORDER, ROOT, flow_states, free_port, run_module

from envace.errors import EnvaceError
from flows import daemons
from flows.address import answers, api, require_free, require_server


@pytest.fixture
def port() -> int:
    """A port nobody listens on."""
    return free_port()


def test_a_taken_port_is_one_line_and_nothing_is_left_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_module(tmp_path / "home", "flows.up", str(port))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: port {port} cannot be used")
    assert len(done.stderr.splitlines()) == 1
    assert not list((tmp_path / "home").rglob("*.json"))


@pytest.mark.parametrize("port", [70000, -1])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(EnvaceError, match="cannot be used"):
        require_free(port)


def test_a_missing_server_is_one_line(port: int, tmp_path: Path) -> None:
    require_server(None)
    with pytest.raises(EnvaceError, match=rf"no Prefect server at {api(port)} \(start one"):
        require_server(api(port))
    done = run_module(tmp_path / "home", "flows.replicate", PREFECT_API_URL=api(port))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: no Prefect server at {api(port)}")


def test_down_without_services_says_so(tmp_path: Path) -> None:
    done = run_module(tmp_path / "home", "flows.down")
    assert (done.returncode, done.stdout) == (0, "stopped: nothing was running\n")


def test_a_port_that_is_let_go_of_in_a_moment_is_waited_for() -> None:
    holder = socket.create_server(("127.0.0.1", 0))
    threading.Timer(0.5, holder.close).start()
    require_free(holder.getsockname()[1])


@pytest.mark.parametrize("text", ["deployments: [", "deployments: [{name: x}]", "[]"])
def test_unreadable_deployments_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    from flows.up import _deploy

    monkeypatch.chdir(tmp_path)
    (tmp_path / "prefect.yaml").write_text(text)
    with pytest.raises(EnvaceError, match=r"prefect\.yaml cannot be read: .") as error:
        _deploy(set(), tmp_path / "out.yaml", {})
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_services_come_up_run_a_deployment_are_mended_and_go(
    project: Path, tmp_path: Path, port: int
) -> None:
    home = tmp_path / "home"
    services = home / "services"
    (project / "flows").symlink_to(ROOT / "flows")
    (project / "prefect.yaml").write_bytes((ROOT / "prefect.yaml").read_bytes())
    try:
        first = run_module(home, "flows.up", str(port))
        assert first.returncode == 0, first.stderr
        assert first.stdout.startswith(f"Prefect is at http://127.0.0.1:{port} ")
        _are_configured(port)

        command = ("prefect", "--no-prompt", "deployment", "run", "replicate/default", "--watch")
        watched = run_module(home, *command, PREFECT_API_URL=api(port))
        assert watched.returncode == 0, watched.stdout + watched.stderr
        lock = (project / "dvc.lock").read_text()
        assert all(name in lock for name in ORDER)
        assert flow_states(api(port)) == ["COMPLETED"]

        server = daemons.recorded("server", services)
        worker = daemons.recorded("worker", services)
        assert server and worker
        os.kill(worker.pid, signal.SIGKILL)
        kept = _with_schedules_of_its_owner(port)
        again = run_module(home, "flows.up", "1")  # The server stays where it is, whatever is asked for.
        assert again.returncode == 0, again.stderr
        assert f"127.0.0.1:{port}" in again.stdout
        assert daemons.recorded("server", services) == server
        mended = daemons.recorded("worker", services)
        assert mended and mended != worker
        assert _schedules(port) == kept
    finally:
        done = run_module(home, "flows.down")
    assert done.stdout == "stopped: worker, server\n"
    assert not answers(api(port))
    require_free(port)
    left = [
        p
        for p in psutil.process_iter(["environ"])
        if (p.info["environ"] or {}).get("PREFECT_HOME") == str(home)
    ]
    assert left == []


def _with_schedules_of_its_owner(port: int) -> set[tuple[str, bool]]:
    """Turn the weekly retraining on, and add another schedule beside it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.schedules import IntervalSchedule
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api(port)}), get_client(sync_client=True) as client:
        weekly = client.read_deployment_by_name("retrain/weekly")
        client.update_deployment_schedule(weekly.id, weekly.schedules[0].id, active=True)
        own = IntervalSchedule(interval=timedelta(days=30))
        client.create_deployment_schedules(weekly.id, [(own, True)])
    kept = _schedules(port)
    assert len(kept) == 2 and all(active for _, active in kept)
    return kept


def _schedules(port: int) -> set[tuple[str, bool]]:
    """Those of the weekly retraining, by id, with whether they are on."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api(port)}), get_client(sync_client=True) as client:
        weekly = client.read_deployment_by_name("retrain/weekly")
    return {(str(each.id), each.active) for each in weekly.schedules}


def _are_configured(port: int) -> None:
    from prefect.automations import Automation
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api(port)}):
        with get_client(sync_client=True) as client:
            assert client.read_work_pool("gpu-local").concurrency_limit == 1
            assert client.read_work_queue_by_name("gpu", work_pool_name="gpu-local").name == "gpu"
            assert client.read_global_concurrency_limit_by_name("gpu").limit == 1
            deployments = client.read_deployments()
        assert Automation.read(name="dead flow runs").enabled
    assert deployments
    assert not [schedule for each in deployments for schedule in each.schedules if schedule.active]
    assert {each.work_queue_name for each in deployments} == {"gpu"}
