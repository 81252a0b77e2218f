"""Child processes of flows: their lines arrive, and their group never outlives the block."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from flows import process as module
from flows.address import wait_until
from flows.process import streamed

FAMILY = """
    import os, signal, subprocess, sys, time
    if {deaf}: signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(os.getpid(), child.pid, flush=True)
    time.sleep(60)
"""


def family(deaf: bool) -> list[str]:
    """A parent with one child; a deaf one ignores all but SIGKILL (and so does what it starts)."""
    return [sys.executable, "-c", textwrap.dedent(FAMILY.format(deaf=deaf))]


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids(process: "subprocess.Popen[str]") -> list[int]:
    assert process.stdout
    return [int(word) for word in process.stdout.readline().split()]


def test_lines_of_both_streams_arrive_in_order() -> None:
    code = "import sys; print('one'); sys.stdout.flush(); print('two \u00e9', file=sys.stderr); sys.exit(3)"
    with streamed([sys.executable, "-c", code], os.environ | {"PYTHONIOENCODING": "utf-8"}) as process:
        assert process.stdout
        assert [line.strip() for line in process.stdout] == ["one", "two é"]
        assert process.wait() == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_how_a_command_ended_is_passed_on(number: signal.Signals) -> None:
    default = "" if number == signal.SIGKILL else f"signal.signal({number}, signal.SIG_DFL)"
    code = f"import os, signal\n{default}\nos.kill(os.getpid(), {number})"
    with streamed([sys.executable, "-c", code], os.environ) as process:
        assert process.wait() == -number


def test_an_error_in_the_block_ends_the_whole_group_by_sigint() -> None:
    with pytest.raises(KeyError), streamed(family(deaf=False), os.environ) as process:
        found = pids(process)
        assert len(found) == 2 and all(map(running, found))
        raise KeyError
    assert process.returncode == -signal.SIGINT
    assert not any(map(running, found))


def test_a_deaf_group_is_killed_after_the_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    graces = ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.3), (signal.SIGKILL, 5.0))
    monkeypatch.setattr(module, "GRACES", graces)
    with streamed(family(deaf=True), os.environ) as process:
        found = pids(process)
        started = time.monotonic()
    assert process.returncode == -signal.SIGKILL
    assert 0.6 <= time.monotonic() - started < 5
    assert not any(map(running, found))


def test_a_child_left_behind_by_a_finished_leader_is_ended() -> None:
    code = family(deaf=False)[-1].replace("time.sleep(60)\n", "\n")
    with streamed([sys.executable, "-c", code], os.environ) as process:
        found = pids(process)
        assert process.wait() == 0
        assert running(found[1])
    assert not running(found[1])


@pytest.mark.parametrize("deaf", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_group_ends_when_the_process_that_started_it_is_killed(tmp_path: Path, deaf: bool) -> None:
    script = tmp_path / "outer.py"
    script.write_text(
        "import os, signal\nfrom flows import process\n"
        f"with process.streamed({family(deaf)!r}, os.environ) as child:\n"
        "    print(child.stdout.readline(), end='', flush=True)\n"
        "    child.wait()\n"
    )
    root = Path(__file__).resolve().parents[2]
    env = os.environ | {"PYTHONPATH": str(root)}
    with subprocess.Popen([sys.executable, str(script)], env=env, stdout=subprocess.PIPE, text=True) as outer:
        found = pids(outer)
        assert len(found) == 2 and all(map(running, found))
        outer.kill()
    # A deaf group has its graces of 15 and 5 seconds; what is tested is that it does not outlive them.
    assert wait_until(lambda: not any(map(running, found)), 22 if deaf else 3)


def test_a_second_interrupt_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    script = tmp_path / "outer.py"
    script.write_text(
        "import os, signal\nfrom flows.process import streamed\n"
        # What a shell starts in the background inherits that Ctrl-C is ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"with streamed({family(deaf=True)!r}, os.environ) as process:\n"
        "    print(process.stdout.readline(), end='', flush=True)\n"
        "    process.wait()\n"
    )
    root = Path(__file__).resolve().parents[2]
    outer = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    found = pids(outer)
    for _ in range(3):  # One interrupts the block, two cut the graces of 15 and 5 seconds short.
        outer.send_signal(signal.SIGINT)
        time.sleep(0.5)
    assert outer.wait(timeout=5) != 0
    assert not any(map(running, found))
