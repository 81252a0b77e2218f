"""A child process whose lines are streamed and whose whole group ends with the block.

DVC starts a shell, the shell starts a trainer: a signal to DVC alone leaves the trainer
running. The child therefore leads its own session, and the *group* is signalled.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil

GRACES = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""Signals in order with the seconds each may take. On SIGINT, DVC frees its locks; together the
graces stay below the 30 s a Prefect worker gives a cancelled flow."""


@contextmanager
def streamed(command: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start `command` and yield it with output and errors as one stream of text lines.

    However the block ends (normally, by an error, by Ctrl-C, by SIGTERM that Prefect turns
    into an exception), no process of the group outlives it.
    """
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
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
    for number, grace in GRACES:
        try:
            if not members(process.pid):
                break
            os.killpg(process.pid, number)
            until = time.monotonic() + grace
            while members(process.pid) and time.monotonic() < until:
                process.poll()
                time.sleep(0.05)
        except ProcessLookupError:
            break
        except KeyboardInterrupt:
            continue  # A second Ctrl-C does not wait for the grace.
    process.wait()
    if process.stdout:
        process.stdout.close()


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
