"""Harnesses in environments of their own: install, find, run a script inside."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envace.benchmarks.watch import Watch, watched
from envace.errors import EnvaceError
from envace.files import atomic_text, digest, write_json

HERE = Path(__file__).parent
"""Folder with `requirements/` and `inside/`."""

ROOT_VARIABLE = "ENVACE_HARNESS"
"""Environment variable that moves the harness folder."""


def default_root() -> Path:
    """Folder of all harnesses: `ENVACE_HARNESS`, or `.harness` in the working directory."""
    return Path(os.environ.get(ROOT_VARIABLE, ".harness"))


def names() -> list[str]:
    """Harnesses that can be installed: one requirements file each."""
    return sorted(path.stem for path in (HERE / "requirements").glob("*.txt"))


def requirements(name: str) -> Path:
    """The pins of a harness.

    Raises:
        EnvaceError: when there is no such harness.
    """
    path = HERE / "requirements" / f"{name}.txt"
    if not path.is_file():
        raise EnvaceError(f"no harness {name!r}", f"choose from {', '.join(names())}")
    return path


def version(name: str) -> str:
    """Package and version of the harness itself, the first pin of its file."""
    lines = requirements(name).read_text("utf-8").splitlines()
    return next(line for line in lines if line and not line.startswith("#"))


def installed(name: str, root: Path | None = None) -> bool:
    """True when the environment was built whole, from the present pins."""
    stamp = (root or default_root()) / name / "stamp"
    return stamp.is_file() and stamp.read_text("utf-8").strip() == digest(requirements(name))


def python_of(name: str, root: Path | None = None) -> Path:
    """The harness's own Python.

    Raises:
        EnvaceError: when it is not installed.
    """
    root = root or default_root()
    if not installed(name, root):
        raise EnvaceError(
            f"harness {name!r} is not installed in {root}", f"run `envace harness install {name}`"
        )
    return (root / name / "venv" / "bin" / "python").absolute()


def site_packages(name: str, root: Path | None = None) -> Path:
    """Folder with the harness's packages, for its data files."""
    return next((python_of(name, root).parents[1] / "lib").glob("python*/site-packages"))


def install(name: str, root: Path | None = None) -> Path:
    """Build the environment of a harness; does nothing when it is up to date. Returns its Python.

    Environments cannot be moved, so a stamp with the pins' digest, written last, makes it whole.
    """
    root = root or default_root()
    pins = requirements(name)
    home = root / name
    with _lock(home):
        if not installed(name, root):
            shutil.rmtree(home / "venv", ignore_errors=True)
            (home / "stamp").unlink(missing_ok=True)
            _step([sys.executable, "-m", "venv", str(home / "venv")], name)
            pip = [str(home / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
            _step([*pip, "--disable-pip-version-check", "-r", str(pins)], name, tries=2)
            with atomic_text(home / "stamp") as handle:
                handle.write(digest(pins) + "\n")
    return python_of(name, root)


@contextmanager
def _lock(home: Path) -> Iterator[None]:
    """Keep two installations of one harness apart."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _step(command: list[str], name: str, tries: int = 1) -> None:
    for left in reversed(range(tries)):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if left:
            time.sleep(5)
    reason = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
    raise EnvaceError(
        f"cannot install harness {name!r}: {reason}",
        "check the network and free disk space, then run it again",
    )


def run_inside(
    name: str,
    script: str,
    job: Mapping[str, Any],
    env: Mapping[str, str],
    root: Path | None = None,
    work: Path | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Run `inside/<script>` with the harness's Python in a folder of its own; returns what it wrote.

    The process sees `PATH` and the variables given, nothing else: no secret of ours gets near a model's code.

    Args:
        name: Harness.
        script: File name in `inside/`.
        job: What to do; the script reads it as JSON.
        env: Variables of the process; `{work}` in a value becomes its folder.
        root: Folder of all harnesses.
        work: Its folder, which stays; None for a fresh one.
        watch: Shows its progress and ends it when it is stuck; None waits in silence.

    Raises:
        EnvaceError: when the script says the endpoint failed, dies, or is stuck.
    """
    python = python_of(name, root)
    with _folder(work) as place:
        ask, said = Path(place, "job.json"), Path(place, "outcome.json")
        said.unlink(missing_ok=True)
        write_json(ask, job)
        variables = {"PATH": os.environ.get("PATH", ""), "HOME": place, "TMPDIR": place}
        variables |= {"OMP_NUM_THREADS": "1", "ENVACE_LIFELINE": "1"}
        variables |= {key: value.replace("{work}", place) for key, value in env.items()}
        flags = ["-E", "-s", "-B", "-X", "utf8"]
        command = [str(python), *flags, str(HERE / "inside" / script), str(ask), str(said)]
        with _lifeline() as held:
            process = subprocess.Popen(
                command,
                cwd=place,
                env=variables,
                stdin=held,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            said_last = watched(process, Path(place), watch)
        outcome = json.loads(said.read_text("utf-8")) if said.is_file() else {}
    if "fatal" in outcome:
        raise EnvaceError(f"{name}: the endpoint failed: {outcome['fatal']}", "see that the server is up")
    if process.returncode != 0 or not outcome:
        tail = (said_last.strip() or "no output").splitlines()[-1]
        raise EnvaceError(f"{name}: the harness stopped with code {process.returncode}: {tail}")
    return outcome


@contextmanager
def _folder(work: Path | None) -> Iterator[str]:
    """The folder given, or one that goes again."""
    if work is None:
        with tempfile.TemporaryDirectory() as fresh:
            yield fresh
    else:
        work.mkdir(parents=True, exist_ok=True)
        yield str(work.absolute())


@contextmanager
def _lifeline() -> Iterator[int]:
    """Standard input of a process that shall not outlive this one: it ends when this one does."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)
