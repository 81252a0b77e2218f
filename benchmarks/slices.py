"""Commands that take turns of a few seconds, so that a machine that changes its speed does so for all.

Two runs of a quarter of an hour, one after the other, differ by more than the few percent in question on
a machine that is shared; two that are stopped and continued by turns meet the same minutes.
"""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import psutil

SLICE = 10.0
"""Seconds of a turn: long against the stopping of all processes, short against what is to be evened out."""


@dataclass
class Run:
    """A command that runs when it is its turn."""

    command: Sequence[str]
    """With its arguments."""
    folder: Path
    """Where it runs."""
    env: Mapping[str, str]
    """Its whole environment."""
    seconds: float = 0.0
    """How long it has been running; the turns of others are left out."""
    output: IO[bytes] = field(default_factory=TemporaryFile)
    """What it printed."""
    process: subprocess.Popen[bytes] | None = None
    """None before its first turn."""

    def turn(self, length: float) -> bool:
        """Let it run for so many seconds; whether it has ended."""
        begun = time.perf_counter()
        if self.process is None:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
            )
        else:
            tell_all(psutil.Process(self.process.pid), signal.SIGCONT)
        try:
            self.process.wait(length)
        except subprocess.TimeoutExpired:
            tell_all(psutil.Process(self.process.pid), signal.SIGSTOP)
        self.seconds += time.perf_counter() - begun
        return self.process.returncode is not None

    def said(self) -> str:
        """All that it printed."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace")


def by_turns(runs: Sequence[Run], length: float = SLICE) -> None:
    """Run all to their ends, one at a time, in turns of so many seconds."""
    left = list(runs)
    try:
        while left:
            left = [run for run in left if not run.turn(length)]
    finally:
        for run in left:
            if run.process:
                tell_all(psutil.Process(run.process.pid), signal.SIGKILL)


def tell_all(process: psutil.Process, number: signal.Signals) -> None:
    """Signal a process and all that it started."""
    with suppress(psutil.NoSuchProcess):
        if number == signal.SIGSTOP:  # First, so that it starts nothing more.
            process.send_signal(number)
        for child in process.children():
            tell_all(child, number)
        if number != signal.SIGSTOP:
            process.send_signal(number)
