"""A small DVC project with the shape of the real one, and the flows run over it as processes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

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
print("letters read: 3/6, 1 s left", "letters read: 6/6, 0 s left", "half: 2/4, 9 s left", sep="\\n")
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
        # A background job of a shell without job control is born deaf to Ctrl-C, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run_module(
    home: Path, module: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """A module in the current folder, with a Prefect home of its own, to its end."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=inherited | {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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


def flow_states(address: str | None = None) -> list[str]:
    """State types of all flow runs, newest first, of the server at `address` or the one in use."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import FlowRunSort
    from prefect.settings import PREFECT_API_URL, temporary_settings

    chosen = {PREFECT_API_URL: address} if address else {}
    with temporary_settings(chosen), get_client(sync_client=True) as client:
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
