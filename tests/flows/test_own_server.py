"""The replicate flow where no server is named: its own starts beside DVC, hears all, and ends with it."""

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from throwaway import ORDER, SCORE, SLEEPING, cancelled, dvc, read_until, start

pytestmark = pytest.mark.slow


def test_dvc_begins_before_the_server_is_there_and_the_server_hears_how_all_ended(
    project: Path, tmp_path: Path
) -> None:
    process = start(home := tmp_path / "home")
    printed = process.communicate(timeout=300)[0]
    assert process.returncode == 0, printed
    assert printed.splitlines()[-1] == "Completed: every stage is up to date"
    assert "http://" not in printed  # there is no page to look at
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        begun = "SELECT strftime('%s', start_time) FROM flow_run"
        assert (project / "data.txt").stat().st_mtime < int(database.execute(begun).fetchone()[0])
        ended = (
            "SELECT task_run.name, state.type FROM task_run JOIN task_run_state state ON state_id = state.id"
        )
        assert sorted(database.execute(ended)) == sorted((name, "COMPLETED") for name in ORDER)


def test_a_server_that_does_not_come_up_is_an_error_and_dvc_is_stopped(project: Path, tmp_path: Path) -> None:
    (project / "score.py").write_text(SLEEPING)
    missing = f"sqlite+aiosqlite:///{tmp_path}/missing/prefect.db"
    process = start(tmp_path / "home", PREFECT_API_DATABASE_CONNECTION_URL=missing)
    printed = process.communicate(timeout=120)[0]
    assert process.returncode == 1
    assert "error: the flow's own Prefect server did not come up (see what it printed)\n" in printed
    (project / "score.py").write_text(SCORE)
    dvc("repro", cwd=project)  # no lock is left behind, and nobody sleeps


def test_cancelling_stops_the_server_too(project: Path, tmp_path: Path) -> None:
    (project / "score.py").write_text(SLEEPING)
    process = start(tmp_path / "home")
    assert cancelled(process, signal.SIGINT) == []
    assert process.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_flow_that_is_ended_while_its_server_starts_leaves_no_process(
    project: Path, tmp_path: Path, number: signal.Signals
) -> None:
    (project / "score.py").write_text(SLEEPING)
    process = psutil.Process((begun := start(tmp_path / "home")).pid)
    until = time.monotonic() + 60
    while not any("own_server" in " ".join(child.cmdline()) for child in process.children(recursive=True)):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(2.0)  # DVC is there as well
    tree = process.children(recursive=True)
    begun.send_signal(number)
    begun.communicate(timeout=30)
    assert begun.returncode == (130 if number == signal.SIGINT else -number)
    assert psutil.wait_procs(tree, timeout=10)[1] == []


def test_a_killed_flow_takes_its_server_with_it(project: Path, tmp_path: Path) -> None:
    (project / "score.py").write_text(SLEEPING)
    process = start(tmp_path / "home")
    read_until(process, r"pids (\d+) (\d+)")
    tree = psutil.Process(process.pid).children(recursive=True)
    assert any("own_server" in " ".join(child.cmdline()) for child in tree)
    process.kill()
    process.wait()
    assert psutil.wait_procs(tree, timeout=30)[1] == []
