"""The real chain in a clone of the working tree, with tiny parameters: run, killed, compared."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMALL = (
    "profile=smoke",
    "model.copy_steps=10",
    "leakage.against=[worlds]",
    "train.steps=6",
    "train.checkpoint_every=1",
    "threads=1",  # two of them beside other work wait for each other most of the time
)
ENV = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": ".",
}
LIMIT = 900


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


def outcome(folder: Path) -> dict[str, str]:
    """All metrics, curves and weights."""
    files = [*folder.glob("metrics/*.json"), *folder.glob("plots/*.csv")]
    files += folder.glob("models/*/model.safetensors")
    return {str(file.relative_to(folder)): file.read_bytes().hex()[-4000:] for file in sorted(files)}
