"""Benchmarks that are measured on the user's own copy: given once, kept beside the harnesses."""

import shutil
from collections.abc import Callable
from pathlib import Path

from envace.benchmarks.harness import default_root
from envace.errors import EnvaceError
from envace.files import atomic_folder


def finmcp_samples(path: Path) -> None:
    """Refuse a file that holds no FinMCP-Bench samples.

    Raises:
        EnvaceError: It is absent, or a record is no sample.
    """
    from envace.benchmarks.finmcp import read_samples

    if not read_samples(path):
        raise EnvaceError(f"{path}: no samples", "give the file of DianJin/FinMCP-Bench")


def vitabench_checkout(path: Path) -> None:
    """Refuse a folder that is no checkout of VitaBench.

    Raises:
        EnvaceError: It lacks the sources or the tasks.
    """
    for part in ("src/vita/run.py", "data/vita/domains/delivery/tasks.json"):
        if not (path / part).is_file():
            raise EnvaceError(f"{path}: no checkout of VitaBench, {part} is absent", "give its top folder")


OWN: dict[str, Callable[[Path], None]] = {"finmcp": finmcp_samples, "vitabench": vitabench_checkout}
"""What refuses a wrong copy, by harness."""

WANTED = {
    "finmcp": "FILE of DianJin/FinMCP-Bench (JSON, JSON lines or parquet)",
    "vitabench": "checkout of github.com/meituan-longcat/vitabench",
}
"""What to give, by harness."""


def given(name: str, root: Path | None = None) -> bool:
    """True when the user gave a copy."""
    return (_home(name, root) / "copy").is_dir()


def copy_of(name: str, root: Path | None = None) -> Path:
    """The copy that was given.

    Raises:
        EnvaceError: when there is none.
    """
    if not given(name, root):
        raise EnvaceError(
            f"{name} is read from your own copy of it",
            f"run `envace harness install {name} --from PATH` with your {WANTED[name]}",
        )
    return next((_home(name, root) / "copy").iterdir())


def install(name: str, source: Path | None, root: Path | None = None) -> Path:
    """Check the user's copy and keep it; without a source, what is kept stays. Returns where it lies.

    Raises:
        EnvaceError: when there is nothing to keep, or it is not what it should be.
    """
    if source is None:
        return copy_of(name, root)
    OWN[name](source)
    with atomic_folder(_home(name, root) / "copy") as folder:
        if source.is_dir():
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns(".git"))
        else:
            shutil.copyfile(source, folder / source.name)
    return copy_of(name, root)


def _home(name: str, root: Path | None) -> Path:
    return (root or default_root()) / name
