"""A stage that starts itself again: same arguments, same exit code, and only once."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from envace.errors import EnvaceError
from envace.launch import relaunch

ROOT = Path(__file__).parents[1]
STAGE = """
import os, sys
from envace.launch import relaunch
relaunch("one.yaml", "stage", sys.argv[1:])
print("here", os.environ["RANK"], sys.argv[1:])
sys.exit(3)
"""


def test_nothing_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    relaunch(None, "stages.train")
    monkeypatch.setenv("WORLD_SIZE", "8")  # one of the processes that were started
    relaunch("conf/accelerate/gpu_8.yaml", "stages.train")


def test_an_absent_configuration_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(EnvaceError, match="no such file"):
        relaunch(str(tmp_path / "none.yaml"), "stages.train")


@pytest.mark.slow
def test_a_stage_runs_under_the_launcher_with_its_arguments_and_passes_its_exit_code_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    values = yaml.safe_load((ROOT / "conf/accelerate/gpu_8.yaml").read_text())
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(values | {"num_processes": 2}))
    (tmp_path / "stage.py").write_text(STAGE)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    done = subprocess.run(
        [sys.executable, "-m", "stage", "warmup"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0
    assert "here 0 ['warmup']" in done.stdout and "here 1 ['warmup']" in done.stdout
