"""Processes that outlive their starter: recorded, found again, ended; nobody else is."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from envace.files import write_json
from flows import daemons
from flows.address import wait_until

PARENT = """
import signal, subprocess, sys, time
if {deaf}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def started(folder: Path, deaf: bool = False) -> tuple[daemons.Daemon, psutil.Process]:
    """A daemon and its child."""
    command = [sys.executable, "-c", PARENT.format(deaf=deaf)]
    daemon = daemons.start("sleeper", command, os.environ, folder)
    assert wait_until(lambda: daemons.log(folder, "sleeper").read_text().strip() != "", 5)
    return daemon, psutil.Process(int(daemons.log(folder, "sleeper").read_text()))


def test_a_daemon_is_found_by_its_record_and_ends_with_its_children(tmp_path: Path) -> None:
    daemon, child = started(tmp_path)
    assert daemons.recorded("sleeper", tmp_path) == daemon
    assert os.getpgid(daemon.pid) == daemon.pid  # Ctrl-C in the terminal that started it does not reach it.
    assert daemons.stop("sleeper", tmp_path)
    assert not daemons.running(daemon)
    assert wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 2)
    assert daemons.recorded("sleeper", tmp_path) is None
    assert not daemons.stop("sleeper", tmp_path)


def test_a_deaf_daemon_is_killed_after_the_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "GRACE", 0.5)
    daemon, _ = started(tmp_path, deaf=True)
    begun = time.monotonic()
    assert daemons.stop("sleeper", tmp_path)
    assert 0.5 <= time.monotonic() - begun < 5
    assert not daemons.running(daemon)


def test_whoever_got_the_id_of_an_ended_daemon_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        created = psutil.Process(stranger.pid).create_time()
        record = {"pid": stranger.pid, "created": created - 60, "command": ["prefect"]}
        write_json(tmp_path / "server.json", record)
        assert daemons.recorded("server", tmp_path) is None
        assert not daemons.stop("server", tmp_path)
        assert stranger.poll() is None
        assert not (tmp_path / "server.json").exists()
        stranger.kill()


def test_the_last_words_are_text_without_its_frame(tmp_path: Path) -> None:
    daemons.log(tmp_path, "worker").write_text("starting\n│ no pool x │\n╰────╯\n\n")
    assert daemons.last_words(tmp_path, "worker") == "no pool x"
