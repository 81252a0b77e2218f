"""Copies of the checkout in which a flow may change what it likes, one flow at a time.

They lie in `.retrain/` of the checkout: a worktree, whose commits are the checkout's too, and a clone for
each of what runs side by side, because worktrees share what git keeps of a DVC experiment at work. A
copy stays with what its stages wrote, so that a killed run goes on where it was. Tracked files are
those of the checkout's last commit: what a human edits there is neither used nor touched. DVC's
cache is shared, so nothing is computed twice.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envace.errors import EnvaceError
from envace.files import atomic_folder
from flows.commands import dvc, git
from flows.mend import mend

HOME = ".retrain"
"""Folder in the checkout; git and DVC ignore it."""
LOCK = "lock"
"""File in it that the working flow holds locked."""
SHARED = (".harness",)
"""Ignored folders of the checkout that stages need."""


@contextmanager
def alone(checkout: Path) -> Iterator[Path]:
    """Hold the worktree's folder for this process; yields that folder.

    The lock belongs to an open file, so it ends with the process, however that ends.

    Raises:
        EnvaceError: Another process holds it.
    """
    home = checkout / HOME
    home.mkdir(exist_ok=True)
    (home / ".gitignore").write_text("*\n")
    with (home / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EnvaceError(f"{home}: another flow works there", "wait for it or cancel it") from error
        yield home


def prepared(checkout: Path, home: Path) -> Path:
    """The worktree at the checkout's last commit, made where it is missing. Call it while `alone`.

    Raises:
        EnvaceError: The checkout is no git repository with a commit, or no DVC repository.
    """
    tree = (home / "tree").resolve()
    head = git("rev-parse", "--verify", "HEAD", cwd=checkout)
    if not (tree / ".git").is_file():
        shutil.rmtree(tree, ignore_errors=True)
        git("worktree", "prune", cwd=checkout)
        git("worktree", "add", "--detach", str(tree), head, cwd=checkout)
    # A killed git leaves its lock; nobody else works in this tree.
    Path(git("rev-parse", "--absolute-git-dir", cwd=tree), "index.lock").unlink(missing_ok=True)
    git("reset", "--hard", head, cwd=tree)
    git("checkout", "--detach", head, cwd=tree)
    git("clean", "-fd", cwd=tree)
    _share(checkout, tree)
    return tree


def cloned(checkout: Path, folder: Path) -> Path:
    """A clone at the checkout's last commit, made where it is missing.

    Raises:
        EnvaceError: The checkout is no git repository with a commit, or no DVC repository.
    """
    head = git("rev-parse", "--verify", "HEAD", cwd=checkout)
    if not folder.is_dir():
        with atomic_folder(folder) as fresh:
            git("clone", "--quiet", "--no-checkout", str(checkout), str(fresh), cwd=checkout)
    (folder / ".git/index.lock").unlink(missing_ok=True)
    git("fetch", "--quiet", "origin", head, cwd=folder)
    git("checkout", "--quiet", "--force", "--detach", head, cwd=folder)
    git("clean", "-fdq", cwd=folder)
    _share(checkout, folder)
    return folder


def _share(checkout: Path, tree: Path) -> None:
    """DVC's cache and settings of the checkout, and the folders that stages need; nothing that a killed
    DVC left half written."""
    mend(tree)
    local = Path(".dvc/config.local")
    if (checkout / local).is_file():
        shutil.copy(checkout / local, tree / local)
    cache = dvc("cache", "dir", cwd=checkout)
    dvc("config", "--local", "cache.dir", str((checkout / cache).resolve()), cwd=tree)
    for name in SHARED:
        if (checkout / name).exists() and not (tree / name).exists():
            (tree / name).symlink_to((checkout / name).resolve())
