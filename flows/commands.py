"""Short commands of git and DVC: what they print, or one line of what went wrong."""

import subprocess
import sys
from pathlib import Path

from envace.errors import EnvaceError
from flows.registry import AUTHOR, EMAIL


def git(*arguments: str, cwd: Path) -> str:
    """Run git in a folder; commits it makes are the flow's, not those of whoever owns the machine.

    Raises:
        EnvaceError: git fails.
    """
    identity = (f"user.name={AUTHOR}", f"user.email={EMAIL}")
    return _run(["git", *(part for entry in identity for part in ("-c", entry)), *arguments], cwd)


def dvc(*arguments: str, cwd: Path) -> str:
    """Run DVC in a folder, waiting for whoever holds its lock.

    Raises:
        EnvaceError: DVC fails.
    """
    return _run([sys.executable, "-m", "dvc", "--wait-for-lock", *arguments], cwd)


def _run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("ERROR: ", "fatal: ", "error: "))]
        said = (errors or lines or ["it printed nothing"])[0]
        shown = " ".join(word for word in command[1:] if not word.startswith(("-", "user.")))
        raise EnvaceError(f"{Path(command[0]).name} {shown}: {said}", f"run it in {cwd}")
    return done.stdout.strip()
