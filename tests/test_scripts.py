"""Scripts for machines with a GPU say in one line that there is none."""

import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_the_gpu_check_ends_in_one_line_where_there_is_no_gpu() -> None:
    done = subprocess.run(["scripts/gpu_check.sh"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: torch finds no GPU") or line.startswith("error: no .venv")
