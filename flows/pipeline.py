"""What DVC knows about the checkout in the current folder: its stages and its metrics."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from envace.errors import EnvaceError
from flows.commands import git

LOCK = Path("dvc.lock")
"""What DVC knows of the stages that ran."""
BROKEN = Path(".dvc/tmp/dvc.lock.broken")
"""Where half of a lock file is kept."""
AT_WORK = Path(".dvc/tmp/rwlock")
"""In which DVC notes what it is reading and writing just now."""


def stage_names() -> list[str]:
    """Names of all stages, matrix items expanded, every stage after those it depends on.

    Raises:
        EnvaceError: This is no DVC checkout, or its dvc.yaml is invalid.
    """
    import networkx
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            # DVC's edges point from a stage to what it needs: a postorder walk is the run order.
            order = networkx.dfs_postorder_nodes(repo.index.graph)
            return [stage.addressing for stage in order if stage.cmd]
    except DvcException as error:
        raise EnvaceError(str(error).replace("\n", " ").strip(), "see `dvc stage list`") from error


def mend() -> bool:
    """Put right what DVC writes in place, where a kill left half of it; whether there was any.

    Of dvc.lock, the last commit's is taken back, or none; what it no longer knows of stages that ran since,
    DVC's run cache does. The notes of what DVC is at are of processes that have ended.

    Raises:
        EnvaceError: Another DVC is at work on these files.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    if not (_half_written() or _half_noted()):
        return False
    try:
        with Repo() as repo, repo.lock:  # under which DVC writes them
            lock, notes = _half_written(), _half_noted()
            if lock:
                LOCK.replace(BROKEN)
                with suppress(EnvaceError):  # It was never committed.
                    git("checkout", "HEAD", "--", str(LOCK), cwd=Path())
            if notes:
                AT_WORK.unlink()
            return lock or notes
    except DvcException as error:
        raise EnvaceError(str(error).replace("\n", " ").strip(), "see `dvc status`") from error


def _half_noted() -> bool:
    """Whether DVC's notes are there and are none."""
    try:
        return AT_WORK.is_file() and not isinstance(json.loads(AT_WORK.read_bytes()), dict)
    except ValueError:
        return True


def _half_written() -> bool:
    """Whether dvc.lock is there and is none; a merge conflict is left to whoever has it."""
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from voluptuous import Invalid

    text = LOCK.read_text(encoding="utf-8", errors="replace") if LOCK.is_file() else None
    if text is None or "<<<<<<<" in text:
        return False
    try:
        COMPILED_LOCKFILE_SCHEMA(yaml.load(text, yaml.CSafeLoader))
    except (yaml.YAMLError, Invalid):
        return True
    return False


def metrics(revision: str | None = None) -> list[dict[str, Any]]:
    """All metrics as table rows: file, dotted name, value. Files not written yet are left out.

    Args:
        revision: A commit, tag or experiment; None is the current folder.
    """
    from dvc.repo import Repo

    with Repo() as repo:
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
