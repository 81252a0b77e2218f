"""Commands by turns: never two at once, whole trees, nothing left after a failure."""

import os
import sys
from itertools import groupby
from pathlib import Path

import psutil
import pytest

from benchmarks.slices import Run, by_turns

BEATS = """
import subprocess, sys, time
name, generations = sys.argv[1], int(sys.argv[2])
younger = [sys.executable, *sys.orig_argv[1:3], name, str(generations - 1)]
child = subprocess.Popen(younger) if generations else None
with open("beats", "a", buffering=1) as file:
    for _ in range(60):
        file.write(name + "\\n")
        time.sleep(0.02)
sys.exit(child.wait() if child else 0)
"""


def run(name: str, folder: Path) -> Run:
    """A process, its child and its grandchild, each writing its name fifty times a second."""
    return Run([sys.executable, "-c", BEATS, name, "2"], folder, os.environ)


def test_trees_of_processes_take_turns(tmp_path: Path) -> None:
    runs = [run("a", tmp_path), run("b", tmp_path)]
    by_turns(runs, length=0.5)
    beats = (tmp_path / "beats").read_text().split()
    assert sorted(beats) == ["a"] * 180 + ["b"] * 180
    # At once they would mix beat by beat.
    turns = [len(list(same)) for _, same in groupby(beats)]
    assert 4 <= len(turns) <= 40
    assert all(each.process and each.process.returncode == 0 and each.seconds > 1.2 for each in runs)


def test_nothing_is_left_where_one_cannot_start(tmp_path: Path) -> None:
    first = run("a", tmp_path)
    with pytest.raises(FileNotFoundError):
        by_turns([first, run("b", tmp_path / "nowhere")], length=0.5)
    assert first.process
    assert first.process.wait(5) != 0
    assert not [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(tmp_path)]
