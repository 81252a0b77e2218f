"""What a harness script has done, seen from outside: progress, and an end to one that is stuck."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from envace.errors import EnvaceError
from envace.progress import track

LOOK_EVERY = 2.0
"""Seconds between two looks."""


@dataclass(frozen=True)
class Watch:
    """How to see from outside what a script has done."""

    label: str
    """Shown in front of its progress."""
    finished: str
    """Files in its folder, as a pattern; they get a line for every task that is finished."""
    total: int
    """Tasks there are."""
    patience: float = 3600.0
    """Seconds in which no task is finished, after which the script is taken for stuck."""

    def done(self, folder: Path) -> int:
        """Tasks finished so far."""
        lines = sum(file.read_bytes().count(b"\n") for file in folder.glob(self.finished))
        return min(lines, self.total)


def watched(process: "subprocess.Popen[str]", folder: Path, watch: Watch | None) -> str:
    """Wait for a script; returns what it wrote to its standard error.

    Raises:
        EnvaceError: It is stuck, and was killed.
    """
    if watch is None:
        return process.communicate()[1]
    seen = watch.done(folder)
    progress = track(range(watch.total), watch.label, seen)
    next(progress, None)
    last = time.monotonic()
    while True:
        try:
            return process.communicate(timeout=LOOK_EVERY)[1]
        except subprocess.TimeoutExpired:
            now = watch.done(folder)
        for _ in range(seen, now):
            next(progress, None)
        last = time.monotonic() if now > seen else last
        seen = max(seen, now)
        if time.monotonic() - last > watch.patience:
            process.kill()
            process.communicate()
            raise EnvaceError(
                f"{watch.label}: stuck after {seen} of {watch.total}: none finished for {watch.patience:g} s",
                "see that the server answers, then start it again",
            )
