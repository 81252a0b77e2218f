"""Processes that outlive the command that started them: a record of each, and an end to exactly those.

A process id is given again after its process ended, so a record holds the start time as well, and
nothing is signalled that did not start then.
"""

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from envace.files import read_json, write_json
from envace.trajectory.records import Record

SAME_START = 1.0
"""Seconds by which two readings of one process's start may differ, since the clock is adjusted."""
GRACE = 15.0
"""Seconds a process has to end by itself once it is asked to."""


class Daemon(Record):
    """A process started here."""

    pid: int
    """Its process id, and that of its group."""
    created: float
    """When it started, in seconds since 1970."""
    command: tuple[str, ...]
    """What was started."""


def start(name: str, command: Sequence[str], env: Mapping[str, str], folder: Path) -> Daemon:
    """Start a process in a session of its own and record it as `folder/NAME.json`.

    Its output goes to `folder/NAME.log`, whose former content is lost.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with log(folder, name).open("wb") as output:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    daemon = Daemon(
        pid=process.pid, created=psutil.Process(process.pid).create_time(), command=tuple(command)
    )
    write_json(_record(folder, name), daemon.model_dump(mode="json"))
    return daemon


def recorded(name: str, folder: Path) -> Daemon | None:
    """The record of that name, if there is one and its process still runs."""
    file = _record(folder, name)
    if not file.is_file():
        return None
    daemon = Daemon.model_validate(read_json(file))
    return daemon if running(daemon) else None


def running(daemon: Daemon) -> psutil.Process | None:
    """The process of a record; None when it ended, whoever has its id now."""
    try:
        process = psutil.Process(daemon.pid)
        same = abs(process.create_time() - daemon.created) < SAME_START
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def stop(name: str, folder: Path) -> bool:
    """End the process of that name with all it started, then drop its record.

    Returns:
        Whether it was running.
    """
    daemon = recorded(name, folder)
    if daemon is not None and (leader := running(daemon)):
        children = leader.children(recursive=True)
        for family in ([leader], children):  # A leader ends its children itself, as far as it can.
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.terminate()
            for process in psutil.wait_procs(family, timeout=GRACE)[1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
    _record(folder, name).unlink(missing_ok=True)
    return daemon is not None


def log(folder: Path, name: str) -> Path:
    """Where the output of a process goes."""
    return folder / f"{name}.log"


def last_words(folder: Path, name: str) -> str:
    """The last line a process printed, frames of a box around it removed."""
    lines = log(folder, name).read_text(errors="replace").splitlines()
    said = [line.strip(" │|") for line in lines if any(map(str.isalnum, line))]
    return said[-1] if said else "it printed nothing"


def _record(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"
