"""SIGKILL at twenty random moments of the chain: it ends where an uninterrupted run ends."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from chain import ENV, checkout, outcome, repro

POINTS = 20
SEED = 20


@pytest.mark.long
def test_twenty_random_kills_end_like_an_uninterrupted_run(tmp_path: Path) -> None:
    straight, killed = checkout(tmp_path / "straight"), checkout(tmp_path / "killed")
    spans = undisturbed(straight)
    order = list(spans)
    chance = random.Random(SEED)
    points = sorted(chance.uniform(0, sum(spans.values())) for _ in range(POINTS))
    struck = []
    for stage, seconds in moments(points, spans):
        with chain(killed) as running:
            for name in started(running):
                if order.index(name) >= order.index(stage):  # a stage that is done does not start again
                    break
            time.sleep(seconds)
            if running.poll() is None:
                struck.append(name)
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    print(f"{sum(spans.values()):.0f} s undisturbed; killed {len(struck)} times, in {struck}")
    repro(killed)
    assert outcome(killed) == outcome(straight)
    assert len(struck) >= POINTS - 2 and len(set(struck)) >= 4


def undisturbed(folder: Path) -> dict[str, float]:
    """Run the chain; seconds of each stage, in their order."""
    with chain(folder) as running:
        times = [(name, time.monotonic()) for name in started(running)]
        assert running.wait() == 0
    return {name: after - begun for (name, begun), (_, after) in pairwise([*times, ("", time.monotonic())])}


def moments(points: list[float], spans: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Stage and seconds after its start for each moment; a stage that was killed has only the rest to do."""
    starting = min(spans.values())  # nearly all of the shortest stage is getting started
    begun, former = 0.0, -1.0
    ends = []
    for name, span in spans.items():
        ends.append((name, begun, begun + span))
        begun += span
    for point in points:
        name, begin, _ = next(entry for entry in ends if point <= entry[2])
        yield name, point - begin if former < begin else starting + point - former
        former = point


def chain(folder: Path) -> "subprocess.Popen[str]":
    """The chain up to training, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "recheck"],
        cwd=folder, env=ENV | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, start_new_session=True,
    )  # fmt: skip


def started(running: "subprocess.Popen[str]") -> Iterator[str]:
    """Names of stages as they start."""
    for line in running.stdout or ():
        if match := re.match(r"Running stage '(.+)'", line):
            yield match[1]
