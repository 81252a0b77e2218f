"""What DVC writes in place and a kill can leave half of is put right, before DVC trips over it."""

import json
from contextlib import suppress
from pathlib import Path

import yaml

from envace.errors import EnvaceError
from flows.commands import git
from flows.pipeline import opened

LOCK = Path("dvc.lock")
"""What DVC knows of the stages that ran."""
BROKEN = Path(".dvc/tmp/dvc.lock.broken")
"""Where half of a lock file is kept."""
AT_WORK = Path(".dvc/tmp/rwlock")
"""In which DVC notes what it is reading and writing just now."""


def mend(project: Path) -> bool:
    """Put right what was half written; whether there was any.

    Of dvc.lock, the last commit's is taken back, or none; what it no longer knows of stages that ran since,
    DVC's run cache does. The notes of what DVC is at are of processes that have ended.

    Args:
        project: Folder of a DVC project.

    Raises:
        EnvaceError: Another DVC is at work on these files.
    """
    if not (_half_written(project) or _half_noted(project)):
        return False
    with opened(project) as repo, repo.lock:  # under which DVC writes them
        lock, notes = _half_written(project), _half_noted(project)
        if lock:
            (project / LOCK).replace(project / BROKEN)
            with suppress(EnvaceError):  # It was never committed.
                git("checkout", "HEAD", "--", str(LOCK), cwd=project)
        if notes:
            (project / AT_WORK).unlink()
        return lock or notes


def _half_noted(project: Path) -> bool:
    """Whether DVC's notes are there and are none."""
    notes = project / AT_WORK
    try:
        return notes.is_file() and not isinstance(json.loads(notes.read_bytes()), dict)
    except ValueError:
        return True


def _half_written(project: Path) -> bool:
    """Whether dvc.lock is there and is none; a merge conflict is left to whoever has it."""
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from voluptuous import Invalid

    lock = project / LOCK
    text = lock.read_text(encoding="utf-8", errors="replace") if lock.is_file() else None
    if text is None or "<<<<<<<" in text:
        return False
    try:
        COMPILED_LOCKFILE_SCHEMA(yaml.load(text, yaml.CSafeLoader))
    except (yaml.YAMLError, Invalid):
        return True
    return False
