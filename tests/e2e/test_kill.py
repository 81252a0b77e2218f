"""SIGKILL in the middle of the chain: the next run resumes and ends where an uninterrupted one ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = (
    "profile=smoke",
    "model.copy_steps=10",
    "leakage.against=[worlds]",
    "train.steps=6",
    "train.checkpoint_every=1",
)
ENV = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": ".",
}
LIMIT = 300


def checkout(folder: Path) -> Path:
    """A clone of the working tree with tiny parameters."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    changed = subprocess.run(
        ["git", "ls-files", "--modified", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for name in changed:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "envace.cli", "params", *SMALL]
    subprocess.run(command, cwd=folder, env=ENV, check=True, capture_output=True)
    return folder


def repro(folder: Path) -> None:
    """Run the chain up to training."""
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro", "recheck"],
        cwd=folder, env=ENV, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


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


def outcome(folder: Path) -> dict[str, str]:
    """All metrics, curves and weights."""
    files = [*folder.glob("metrics/*.json"), *folder.glob("plots/*.csv")]
    files += folder.glob("models/*/model.safetensors")
    return {str(file.relative_to(folder)): file.read_bytes().hex()[-4000:] for file in sorted(files)}


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
