"""SIGKILL in the middle of the chain: the next run resumes and ends where an uninterrupted one ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chain import ENV, LIMIT, SMALL, checkout, outcome, repro


def kill_during(folder: Path, stage: str) -> None:
    """Start the chain and SIGKILL everything as soon as the stage has a resume point."""
    running = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "recheck"],
        cwd=folder, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + LIMIT
    while not list((folder / ".scratch").glob(f"{stage}-*.pt")):
        assert running.poll() is None and time.monotonic() < deadline, f"{stage} never got that far"
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert list((folder / ".scratch").glob(f"{stage}-*.pt")), f"{stage} had already finished"


@pytest.mark.slow
def test_killed_in_warm_up_and_in_training_ends_like_an_uninterrupted_run(tmp_path: Path) -> None:
    straight, killed = checkout(tmp_path / "straight"), checkout(tmp_path / "killed")
    repro(straight)
    kill_during(killed, "warmup")
    assert not (killed / "models/warmup").exists()
    kill_during(killed, "train")
    assert (killed / "models/warmup").exists() and not (killed / "models/trained").exists()
    repro(killed)
    assert outcome(killed) == outcome(straight)
    assert len(outcome(straight)) > 10

    # A changed training parameter runs training and what follows again, and nothing else.
    command = [sys.executable, "-m", "envace.cli", "params", *SMALL, "train.rate=1e-4"]
    subprocess.run(command, cwd=straight, env=ENV, check=True, capture_output=True)
    status = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "--quiet", "split", "warmup", "check"], cwd=straight, env=ENV
    )
    assert status.returncode == 0
    changed = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "train"],
        cwd=straight,
        env=ENV,
        capture_output=True,
        text=True,
    )
    assert "params.yaml" in changed.stdout and "modified" in changed.stdout
