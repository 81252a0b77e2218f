"""What DVC knows about a checkout: its stages and its metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.errors import EnvaceError

if TYPE_CHECKING:
    from dvc.repo import Repo


@contextmanager
def opened(project: Path) -> Iterator["Repo"]:
    """A DVC project to ask.

    Args:
        project: Its folder.

    Raises:
        EnvaceError: DVC cannot do what it is asked for in the block; one line.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(project)) as repo:
            yield repo
    except DvcException as error:
        raise EnvaceError(str(error).replace("\n", " ").strip(), "see `dvc status`") from error


def stage_names() -> list[str]:
    """Names of all stages of the project in the current folder, matrix items expanded, every stage after
    those it depends on.

    Raises:
        EnvaceError: This is no DVC checkout, or its dvc.yaml is invalid.
    """
    import networkx

    with opened(Path()) as repo:
        # DVC's edges point from a stage to what it needs: a postorder walk is the run order.
        order = networkx.dfs_postorder_nodes(repo.index.graph)
        return [stage.addressing for stage in order if stage.cmd]


def metrics(revision: str | None = None) -> list[dict[str, Any]]:
    """All metrics as table rows: file, dotted name, value. Files not written yet are left out.

    Args:
        revision: A commit, tag or experiment; None is the current folder.

    Raises:
        EnvaceError: There is no such revision, or its metrics cannot be read.
    """
    with opened(Path()) as repo:
        shown = repo.metrics.show(revs=[revision] if revision else None)
    files = shown.get(revision or "", {}).get("data", {})
    return [
        {"file": file, "metric": name, "value": value}
        for file, content in files.items()
        for name, value in _flat(content.get("data", {}))
    ]


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested objects with their dotted names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value
