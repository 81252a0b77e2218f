"""A child process whose lines are streamed and whose whole group ends with the block.

DVC starts a shell, the shell starts a trainer: a signal to DVC alone leaves the trainer
running. The child therefore leads its own session, and the *group* is signalled. Its leader is
this file, run as a script: it ends the group as well when the process that started it is killed.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

GRACES = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""Signals in order with the seconds each may take. On SIGINT, DVC frees its locks; together the
graces stay below the 30 s a Prefect worker gives a cancelled flow."""
GLANCE = 0.5
"""Seconds between two looks at whether the group still has somebody to run for."""


@contextmanager
def streamed(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path | None = None,
    lock: Path | None = None,
    output: int = subprocess.PIPE,
) -> Iterator[subprocess.Popen[str]]:
    """Start `command` and yield it with output and errors as one stream of text lines.

    However the block ends (normally, by an error, by Ctrl-C, by SIGTERM that Prefect turns
    into an exception, or because this process is killed), no process of the group outlives it.

    Args:
        command: With its arguments.
        env: Its whole environment.
        cwd: Its folder; this process's when None.
        lock: A file that somebody else holds locked for as long as the command may run.
        output: Number of an open file that the lines go to; by default, they are to be read.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(os.getpid()), str(lock or ""), *command],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end_group(process)


def end_group(process: "subprocess.Popen[str]") -> None:
    """End every process of the group that `process` leads, by ever harsher signals."""
    _signal(process.pid, process.poll)
    process.wait()
    if process.stdout:
        process.stdout.close()


def _signal(group: int, reap: Callable[[], object], spared: int = 0) -> None:
    """Signal a group until none of it runs.

    Args:
        group: Its id.
        reap: Waits for those that are this process's own children.
        spared: The one of them that is not waited for.
    """

    def left() -> bool:
        return any(process.pid != spared for process in members(group))

    for number, grace in GRACES:
        try:
            if not left():
                break
            os.killpg(group, number)
            until = time.monotonic() + grace
            while left() and time.monotonic() < until:
                reap()
                time.sleep(0.05)
        except ProcessLookupError:
            break
        except KeyboardInterrupt:
            continue  # A second Ctrl-C does not wait for the grace.


def members(group: int) -> list[psutil.Process]:
    """Processes of a group that still run; a zombie nobody has waited for does not."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    return found


def lead(parent: int, lock: str, command: Sequence[str]) -> int:
    """Run a command in the group that this process leads; end the group when nobody waits for it.

    Args:
        parent: The process that has to live.
        lock: The file that has to be held by somebody; empty for none.
        command: With its arguments.

    Returns:
        The command's exit code, negative when a signal ended it.
    """
    for number, _ in GRACES[:-1]:
        # Signals are for the command, which is in the group; ignored ones it would inherit.
        signal.signal(number, lambda *_: None)
    child = subprocess.Popen(command)
    while True:
        try:
            return child.wait(GLANCE)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent or (lock and free(lock)):
                _signal(os.getpid(), child.poll, spared=os.getpid())
                return child.wait()


def free(lock: str) -> bool:
    """Whether no process holds a lock file; the lock of one that was killed is free."""
    with Path(lock).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


if __name__ == "__main__":
    ended = lead(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    if ended < 0:
        if -ended != signal.SIGKILL:
            signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    sys.exit(ended)
