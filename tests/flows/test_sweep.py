"""Sweeps of real DVC experiments: one each, none twice, one table; the human's folder stays as it is."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from throwaway import ROOT, dvc, free_port, latest

DVC_YAML = """
stages:
  train:
    cmd: python train.py
    deps: [train.py]
    params: [rate, seed]
    metrics: [metrics/evaluate/small.json, metrics/other.json]
"""
TRAIN = """
import json, pathlib, sys, yaml
found = yaml.safe_load(open("params.yaml"))
if found["rate"] > 1:
    sys.exit("error: rate 2: diverged (lower the rate)")
runs = pathlib.Path(RUNS)
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
for name, value in (("evaluate/small", found["rate"] * 10 + found["seed"]), ("other", 7)):
    file = pathlib.Path(f"metrics/{name}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"all": value}))
"""

TOGETHER = """
import time
mine, other = (runs.with_name(f"seed-{seed}") for seed in (found["seed"], 3 - found["seed"]))
mine.touch()
deadline = time.monotonic() + 120
while not other.exists():
    assert time.monotonic() < deadline, "one after the other"
    time.sleep(0.1)
"""
SLEEPING = """
import os, pathlib, time
pathlib.Path(RUNS).write_text(str(os.getpid()))
time.sleep(300)
"""


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed project, as the current folder; every run of its stage leaves a mark beside it."""
    root = tmp_path / "swept"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    dvc("init", "--quiet", cwd=root)
    (root / "dvc.yaml").write_text(DVC_YAML)
    (root / "train.py").write_text(TRAIN.replace("RUNS", repr(str(tmp_path / "runs"))))
    (root / "params.yaml").write_text("rate: 0.1\nseed: 1\n")
    (root / ".gitignore").write_text("/metrics\n")
    commit(root)
    monkeypatch.chdir(root)
    return root


def commit(root: Path) -> None:
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", "project"], cwd=root, check=True)


def test_equal_overrides_have_one_name_whatever_their_order() -> None:
    from flows.sweep import experiment_name

    one = experiment_name("rates", ["a=1", "b=2"])
    assert one == experiment_name("rates", ["b=2", "a=1"]) != experiment_name("rates", ["a=1", "b=3"])
    assert one.startswith("rates-") and one.replace("-", "").isalnum()


@pytest.mark.slow
def test_a_sweep_runs_what_is_missing_and_tabulates_all(swept: Path, tmp_path: Path, server: str) -> None:
    from flows.mend import AT_WORK
    from flows.sweep import experiment_name, sweep

    sets = [["rate=0.2"], ["rate=2"], ["rate=0.3", "seed=5"]]
    state = sweep("rates", sets, return_state=True)
    assert state.is_failed()
    assert "1 of 3 failed, first: experiment rates-" in state.message and "diverged" in state.message
    assert (tmp_path / "runs").read_text() == "xx"

    def row(overrides: list[str], **found: float) -> dict[str, object]:
        return {
            "experiment": experiment_name("rates", overrides), "overrides": " ".join(overrides), **found,
        }  # fmt: skip

    assert json.loads(str(latest("sweep"))) == [
        row(["rate=0.2"], **{"small.all": 3.0}),
        row(["rate=2"]),
        row(["rate=0.3", "seed=5"], **{"small.all": 8.0}),
    ]

    # A killed one leaves its clone, and in it a file that DVC was just writing.
    failed, sets[1] = swept / ".retrain" / experiment_name("rates", sets[1]), ["rate=0.4"]
    clone = failed.rename(failed.with_name(experiment_name("rates", sets[1])))
    (clone / AT_WORK).write_bytes(b"")
    assert sweep("rates", sets, return_state=True).is_completed()
    assert (tmp_path / "runs").read_text() == "xxx"  # the other two ran before
    assert [row["small.all"] for row in json.loads(str(latest("sweep")))] == [3.0, 5.0, 8.0]
    changed = subprocess.run(["git", "status", "--short"], capture_output=True, text=True, check=True)
    assert changed.stdout == ""
    assert (swept / "params.yaml").read_text() == "rate: 0.1\nseed: 1\n"


def test_a_cluster_that_is_not_there_is_one_line(swept: Path, server: str) -> None:
    from flows.sweep import sweep

    state = sweep("rates", [["rate=0.2"]], cluster=f"tcp://127.0.0.1:{free_port()}", return_state=True)
    assert state.is_failed() and "no Dask scheduler answers at tcp://127.0.0.1" in state.message


@pytest.fixture
def cluster() -> Iterator[str]:
    """Two workers of one thread each; yields the scheduler's address."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as local:
        yield str(local.scheduler_address)


@pytest.mark.slow
def test_experiments_run_side_by_side_on_a_cluster(
    swept: Path, tmp_path: Path, server: str, cluster: str
) -> None:
    from flows.sweep import sweep

    (swept / "train.py").write_text((TRAIN + TOGETHER).replace("RUNS", repr(str(tmp_path / "runs"))))
    commit(swept)
    sets = [["seed=1"], ["seed=2"], ["rate=2", "seed=2"]]
    state = sweep("seeds", sets, cluster=cluster, return_state=True)
    assert state.is_failed() and "1 of 3 failed" in state.message and "diverged" in state.message
    assert [row.get("small.all") for row in json.loads(str(latest("sweep")))] == [2.0, 3.0, None]
    # What is done has left; what failed can go on.
    assert len([path for path in (swept / ".retrain").glob("seeds-*") if path.is_dir()]) == 1


@pytest.mark.slow
def test_a_cluster_goes_on_for_nobody(swept: Path, tmp_path: Path, server: str, cluster: str) -> None:
    marked = tmp_path / "pid"
    (swept / "train.py").write_text(SLEEPING.replace("RUNS", repr(str(marked))))
    commit(swept)
    flow = subprocess.Popen(
        [sys.executable, "-m", "flows.sweep", "--cluster", cluster, "long", "seed=2"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": server},
    )
    try:
        deadline = time.monotonic() + 120
        while not (marked.is_file() and marked.read_text()):
            assert time.monotonic() < deadline and flow.poll() is None
            time.sleep(0.1)
    finally:
        flow.kill()
        flow.wait()
    psutil.wait_procs([psutil.Process(int(marked.read_text()))], timeout=10)
    assert not psutil.pid_exists(int(marked.read_text()))
