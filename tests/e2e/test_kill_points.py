"""SIGKILL at twenty random moments of one run of the chain: it ends where an uninterrupted one ends."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chain import ENV, checkout, outcome, repro

POINTS = 20
SEED = 20


@pytest.mark.long
def test_twenty_random_kills_end_like_an_uninterrupted_run(tmp_path: Path) -> None:
    straight, killed = checkout(tmp_path / "straight"), checkout(tmp_path / "killed")
    begun = time.monotonic()
    repro(straight)
    whole = time.monotonic() - begun

    # On average the moments add up to a whole run, so that they lie all over it.
    moments = [random.Random(SEED + point).uniform(0, 2 * whole / POINTS) for point in range(POINTS)]
    stages = []
    for moment in moments:
        running = subprocess.Popen(
            [sys.executable, "-m", "dvc", "repro", "recheck"],
            cwd=killed, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        time.sleep(moment)
        with_group = running.poll() is None
        if with_group:
            os.killpg(running.pid, signal.SIGKILL)
        said = running.communicate()[0]
        assert with_group or running.returncode == 0, said[-2000:]
        stages.append([line for line in said.splitlines() if line.startswith("Running stage")][-1:])
    print(f"{whole:.0f} s undisturbed; killed in {stages}")
    repro(killed)
    assert outcome(killed) == outcome(straight)
    # Not all at the same place.
    assert len({stage[0] for stage in stages if stage}) >= 4
