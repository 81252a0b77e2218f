"""The replicate flow over a real throw-away DVC project: same lock as DVC, cached, failed, cancelled."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

import flows  # noqa: F401 - its defaults must be set before Prefect is imported
from envace.errors import EnvaceError

ROOT = Path(__file__).resolve().parents[2]

DVC_YAML = """
stages:
  report:
    cmd: mkdir -p reports && cat score-a.json score-b.json > reports/index.html
    deps: [score-a.json, score-b.json]
    outs: [reports/index.html]
  score:
    matrix:
      name: [a, b]
    cmd: python score.py ${item.name}
    deps: [score.py, data.txt]
    metrics:
    - score-${item.name}.json:
        cache: false
  data:
    cmd: echo twelve > data.txt
    outs: [data.txt]
"""
ORDER = ["data", "score@a", "score@b", "report"]
SCORE = """
import json, pathlib, sys
print("scoring", sys.argv[1])
text = pathlib.Path("data.txt").read_text()
pathlib.Path(f"score-{sys.argv[1]}.json").write_text(json.dumps({"length": {"letters": len(text.strip())}}))
"""
FAILING = "import sys; sys.exit('data.txt:1: not a number (write digits)')"
SLEEPING = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
print("pids", os.getpid(), child.pid)
time.sleep(120)
"""


def dvc(*arguments: str, cwd: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=cwd,
        check=True,
        capture_output=True,
        env=os.environ | {"PATH": path, "DVC_NO_ANALYTICS": "1"},
    )


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git and DVC project that has never run."""
    root = tmp_path_factory.mktemp("template")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    dvc("init", "--quiet", cwd=root)
    dvc("config", "core.check_update", "false", cwd=root)
    (root / "dvc.yaml").write_text(DVC_YAML)
    (root / "score.py").write_text(SCORE)
    return root


@pytest.fixture
def project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the project, as the current folder."""
    root = tmp_path / "project"
    shutil.copytree(template, root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Prefect server for all tests here; yields its API address."""
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield str(PREFECT_API_URL.value())


def start(home: Path, **environment: str) -> "subprocess.Popen[str]":
    """`python -m flows.replicate` in the current folder, with a Prefect home of its own."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return subprocess.Popen(
        [sys.executable, "-m", "flows.replicate"],
        env=inherited | {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(home)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def read_until(process: "subprocess.Popen[str]", pattern: str) -> re.Match[str]:
    """Read output until a line matches."""
    assert process.stdout
    seen = []
    for line in process.stdout:
        seen.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"{pattern!r} never came:\n{''.join(seen)}")


def latest(key: str) -> object:
    """Data of the newest artifact of that key."""
    from prefect.artifacts import Artifact

    artifact = Artifact.get(key)
    assert artifact
    return artifact.data


def test_stages_come_in_the_order_they_can_run(project: Path) -> None:
    from flows.pipeline import metrics, stage_names

    assert stage_names() == ORDER
    assert metrics() == []


def test_a_folder_that_dvc_cannot_read_is_a_one_line_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pipeline import stage_names

    (project / "dvc.yaml").write_text("stages:\n  data: {cmd: echo, depz: [x]}\n")
    with pytest.raises(EnvaceError, match=r"dvc\.yaml.*see `dvc stage list`") as broken:
        stage_names()
    assert "\n" not in str(broken.value)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvaceError, match="not inside of a DVC repository"):
        stage_names()


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Running stage 'a':|> x|a.py:1: bad (mend)|ERROR: failed to reproduce 'a': x", "a.py:1: bad (mend)"),
        ("Running stage 'a':|> x|ERROR: failed to reproduce 'a': x", "ERROR: failed to reproduce 'a': x"),
        ("ERROR: unable to acquire lock", "ERROR: unable to acquire lock"),
        ("", "it printed nothing"),
    ],
)
def test_the_reason_of_a_failure_is_the_line_that_says_something(printed: str, expected: str) -> None:
    from flows.replicate import reason

    assert reason(printed.split("|") if printed else []) == expected


@pytest.mark.slow
def test_the_flow_leaves_what_dvc_repro_leaves_and_then_finds_all_cached(
    project: Path, template: Path, tmp_path: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.replicate import main

    twin = tmp_path / "twin"
    shutil.copytree(template, twin)
    dvc("repro", cwd=twin)

    assert main() == 0
    assert (project / "dvc.lock").read_bytes() == (twin / "dvc.lock").read_bytes()
    assert list(yaml.safe_load((project / "dvc.lock").read_text())["stages"]) == ORDER
    rows = json.loads(str(latest("stages")))
    assert [(row["stage"], row["status"]) for row in rows] == [(name, "Completed") for name in ORDER]
    assert all(row["seconds"] > 0 for row in rows)
    assert json.loads(str(latest("metrics"))) == [
        {"file": f"score-{name}.json", "metric": "length.letters", "value": 6} for name in "ab"
    ]
    assert (project / "reports/index.html").as_uri() in str(latest("report"))

    before = (project / "dvc.lock").stat().st_mtime_ns
    assert main() == 0
    assert {row["status"] for row in json.loads(str(latest("stages")))} == {"Cached"}
    assert (project / "dvc.lock").stat().st_mtime_ns == before

    (project / "score.py").write_text(FAILING)
    capsys.readouterr()
    assert main() == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: stage score@a: data.txt:1: not a number (write digits)"
    )
    rows = json.loads(str(latest("stages")))
    assert [(row["stage"], row["status"]) for row in rows] == [("data", "Cached"), ("score@a", "Failed")]
    assert flow_states()[0] == "FAILED"


def flow_states() -> list[str]:
    """State types of all flow runs, newest first."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import FlowRunSort

    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(sort=FlowRunSort.EXPECTED_START_TIME_DESC)
    return [str(run.state_type.value) if run.state_type else "" for run in runs]


def cancelled(process: "subprocess.Popen[str]", number: signal.Signals) -> list[psutil.Process]:
    """Signal a flow once its stage runs, wait at most 10 s, and return what it left running."""
    found = read_until(process, r"pids (\d+) (\d+)")
    tree = psutil.Process(process.pid).children(recursive=True)
    assert {int(pid) for pid in found.groups()} <= {child.pid for child in tree}
    process.send_signal(number)
    started = time.monotonic()
    output = process.communicate(timeout=30)[0]
    assert time.monotonic() - started < 10, output
    return [child for child in tree if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_cancelling_with_a_server_leaves_no_process_and_no_lock(
    project: Path, tmp_path: Path, server: str, number: signal.Signals, code: int
) -> None:
    (project / "score.py").write_text(SLEEPING)
    process = start(tmp_path / "home", PREFECT_API_URL=server)
    assert cancelled(process, number) == []
    assert process.returncode == code
    (project / "score.py").write_text(SCORE)
    dvc("repro", cwd=project)  # no lock is left behind


@pytest.mark.slow
def test_cancelling_without_a_server_stops_the_temporary_one_too(project: Path, tmp_path: Path) -> None:
    (project / "score.py").write_text(SLEEPING)
    process = start(tmp_path / "home")
    assert cancelled(process, signal.SIGINT) == []
    assert process.returncode == 130
