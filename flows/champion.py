"""The champion in the worktree: its corpus to train on, and its weights in the place of the candidate's."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from envace.files import read_json
from flows.commands import dvc, git
from flows.registry import Version

CORPUS = "accepted"
"""Folder of the files that training uses besides its own sources; DVC keeps it, `accepted.dvc` names it."""
POLICY = "models/trained"
"""What the graph trains."""
GRAPH = ("dvc.yaml", "dvc.lock")


def restore_corpus(tree: Path, champion: Version | None) -> set[str]:
    """Bring the champion's corpus back, and nothing else a former run may have left there.

    Returns:
        Names of its files.
    """
    folder = tree / CORPUS
    shutil.rmtree(folder, ignore_errors=True)
    if champion:
        git("checkout", champion.commit, "--", f"{CORPUS}.dvc", cwd=tree)
    if (tree / f"{CORPUS}.dvc").is_file():
        dvc("checkout", "--force", f"{CORPUS}.dvc", cwd=tree)
    folder.mkdir(exist_ok=True)
    return {path.name for path in folder.iterdir()}


def keep(tree: Path, message: str) -> str:
    """Commit what the graph made, on no branch.

    Returns:
        Full id of the commit.
    """
    git("add", "--", "dvc.lock", "params.yaml", f"{CORPUS}.dvc", cwd=tree)
    git("commit", "--all", "--no-verify", "--quiet", "--message", message, cwd=tree)
    return git("rev-parse", "HEAD", cwd=tree)


@contextmanager
def in_place(tree: Path, champion: Version, candidate: str) -> Iterator[None]:
    """Put the champion's weights where the candidate's are, so that the same stages measure it.

    Code, parameters and data stay the candidate's: both meet the same tasks with the same seeds.

    Args:
        tree: The worktree at the candidate's commit.
        champion: Whose weights to use.
        candidate: Commit to go back to.
    """
    try:
        git("checkout", champion.commit, "--", *GRAPH, cwd=tree)
        dvc("checkout", "--force", POLICY, cwd=tree)
        git("checkout", candidate, "--", *GRAPH, cwd=tree)
        yield
    finally:
        # Also where the champion cannot be measured: the next run shall not take it for the candidate.
        git("reset", "--hard", candidate, cwd=tree)
        dvc("checkout", "--force", cwd=tree)


def successes(tree: Path, benchmarks: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Success by benchmark and task, from the result files; tasks on which a harness failed are left out.

    Raises:
        EnvaceError: A file is absent or no JSON.
    """
    return {
        name: {
            task["id"]: task["success"]
            for task in read_json(tree / file)["tasks"]
            if task["success"] is not None
        }
        for name, file in benchmarks.items()
    }
