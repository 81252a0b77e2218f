"""Sweeps of real DVC experiments: one each, none twice, one table; the human's folder stays as it is."""

import json
import subprocess
from pathlib import Path

import pytest
from throwaway import dvc, latest

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
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", "project"], cwd=root, check=True)
    monkeypatch.chdir(root)
    return root


def test_equal_overrides_have_one_name_whatever_their_order() -> None:
    from flows.sweep import experiment_name

    one = experiment_name("rates", ["a=1", "b=2"])
    assert one == experiment_name("rates", ["b=2", "a=1"]) != experiment_name("rates", ["a=1", "b=3"])
    assert one.startswith("rates-") and one.replace("-", "").isalnum()


@pytest.mark.slow
def test_a_sweep_runs_what_is_missing_and_tabulates_all(swept: Path, tmp_path: Path, server: str) -> None:
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

    sets[1] = ["rate=0.4"]
    assert sweep("rates", sets, return_state=True).is_completed()
    assert (tmp_path / "runs").read_text() == "xxx"  # the other two ran before
    assert [row["small.all"] for row in json.loads(str(latest("sweep")))] == [3.0, 5.0, 8.0]
    changed = subprocess.run(["git", "status", "--short"], capture_output=True, text=True, check=True)
    assert changed.stdout == ""
    assert (swept / "params.yaml").read_text() == "rate: 0.1\nseed: 1\n"
