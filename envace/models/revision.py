"""The policy that an earlier version of this project trained."""

from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.models.facts import facts
from envace.params import RevisionModel

TRAINED = "models/trained"
"""What the graph trains; DVC keeps it."""


def revision(params: RevisionModel, seed: int, folder: Path) -> dict[str, Any]:
    """Write the model folder that the project in the current folder trained at a commit; see `Source`."""
    fetch(params.revision, folder)
    return facts(folder) | {"revision": params.revision}


def fetch(commit: str, folder: Path) -> None:
    """Copy what was trained at a commit or tag of the project in the current folder.

    Raises:
        EnvaceError: There is no such commit, it trained nothing, or its weights are not in the cache.
    """
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.scm import RevError
    from dvc_data.index import DataIndexError

    try:
        DVCFileSystem(".", rev=commit).get(f"{TRAINED}/", str(folder), recursive=True)
    except (DvcException, RevError, DataIndexError, OSError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise EnvaceError(
            f"{commit}: no {TRAINED} to be had: {reason}",
            "see `git tag` for versions; `dvc fetch --all-tags` gets what this machine lacks",
        ) from error
