"""No room to write: one line, a code that is not 0, and nothing half written; for every way we write."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from envace.errors import EnvaceError, room
from envace.files import atomic_folder, atomic_text, write_json

ROOT = Path(__file__).parents[1]
LIMIT = 20_000
"""Bytes that a file may have."""

WRITES = {
    "text": "with atomic_text(path) as h: h.write(big)",
    "json": "write_json(path, big)",
    "folder": "with atomic_folder(path) as f: (f / 'x').write_text(big)",
    "checkpoint": "with atomic_folder(path) as f: torch.save({'x': torch.zeros(10**5)}, f / 'x.pt')",
    "weights": "with atomic_folder(path) as f: save_file({'x': torch.zeros(10**5)}, f / 'x.safetensors')",
}


def limited() -> None:
    """In a child: files end at the limit, as on a full disk; Python ignores the signal that says so."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.mark.parametrize("kind", WRITES)
def test_every_way_of_writing(kind: str, tmp_path: Path) -> None:
    names = {"atomic_text": atomic_text, "write_json": write_json, "atomic_folder": atomic_folder}
    names |= {"torch": torch, "save_file": save_file, "path": tmp_path / "out", "big": "x" * 10**6}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    try:
        with pytest.raises(EnvaceError, match="make room and run it again") as caught, room():
            exec(WRITES[kind], names)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_names_the_file(number: int) -> None:
    with pytest.raises(EnvaceError) as caught, room():
        raise OSError(number, os.strerror(number), "models/trained")
    assert caught.value.message == f"models/trained: {os.strerror(number)}"


@pytest.mark.parametrize("error", [ValueError("no"), OSError(errno.ENOENT, "none"), EnvaceError("mine")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, room():
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    "command",
    [
        ["envace.cli", "synthesize", "worlds", "--count", "300", "--out", "OUT/made.jsonl"],
        ["stages.synthesize"],
    ],
)
def test_a_command_and_a_stage_end_in_one_line(command: list[str], tmp_path: Path) -> None:
    for name in ("stages", "conf"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment: dict[str, Any] = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [part.replace("OUT", str(tmp_path)) for part in command]
    params = [sys.executable, "-m", "envace.cli", "params", "profile=smoke"]
    subprocess.run(params, cwd=tmp_path, env=environment, check=True, capture_output=True)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tmp_path, env=environment, capture_output=True, text=True, preexec_fn=limited,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "File too large" in last and "Traceback" not in done.stderr
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and path not in before] == []
