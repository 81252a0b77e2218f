"""Registered policies: GTO's tags in git. A version is a commit; the champion is the last one assigned.

A commit pins code, parameters, data and weights (through dvc.lock), so a version is all that is
needed to serve it, train it again or go back to it. To promote or roll back is to create one tag,
which git does wholly or not at all.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.trajectory.records import Record

NAME = "policy"
"""The artifact in the registry."""
STAGE = "champion"
"""Stage of the version in service."""
AUTHOR, EMAIL = "envace", "envace@localhost"
"""Who makes tags and commits: the flow, whoever's checkout it works in."""


class Version(Record):
    """A registered policy."""

    version: str
    """As in `v0.0.3`."""
    commit: str
    """Commit that holds it."""
    message: str
    """Why it was promoted or not."""

    @property
    def tag(self) -> str:
        """The tag in git."""
        return f"{NAME}@{self.version}"


def register(root: Path, commit: str, message: str) -> Version:
    """Register a commit as the next version.

    Args:
        root: The checkout.
        commit: Full id of the commit.
        message: Why it is promoted or not, in one line.

    Raises:
        EnvaceError: The commit is a version already.
    """
    from gto.api import register
    from gto.exceptions import GTOException

    try:
        made = register(str(root), NAME, commit, message=message, author=AUTHOR, author_email=EMAIL)
    except GTOException as error:
        raise EnvaceError(f"not registered: {error}", "see `gto history policy`") from error
    assert made is not None
    return Version(version=made.version, commit=commit, message=message)


def promote(root: Path, version: str, message: str) -> None:
    """Make a version the champion.

    Raises:
        EnvaceError: There is no such version.
    """
    from gto.api import assign
    from gto.exceptions import GTOException

    try:
        # A champion that was rolled back may become it again, for which GTO wants to be forced.
        assign(
            str(root),
            NAME,
            STAGE,
            version=version,
            message=message,
            force=True,
            author=AUTHOR,
            author_email=EMAIL,
        )
    except GTOException as error:
        raise EnvaceError(f"{version} cannot be assigned: {error}", "see `gto show policy`") from error


def versions(root: Path) -> dict[str, Version]:
    """All registered policies by version, oldest first."""
    return {
        event["version"]: Version(
            version=event["version"], commit=event["commit"], message=(event["message"] or "").strip()
        )
        for event in _events(root, "registration")
    }


def champion(root: Path) -> Version | None:
    """The policy in service."""
    line = champions(root)
    return versions(root)[line[-1]] if line else None


def champions(root: Path) -> list[str]:
    """Champions each of which replaced the one before; a roll-back takes those behind it off."""
    return succession(event["version"] for event in _events(root, "assignment"))


def succession(assigned: Iterable[str]) -> list[str]:
    """The line of champions from all assignments in order."""
    line: list[str] = []
    for version in assigned:
        kept = line.index(version) if version in line else len(line)
        line = [*line[:kept], version]
    return line


def _events(root: Path, kind: str) -> list[dict[str, Any]]:
    """Registrations or assignments, oldest first: by number, since time stamps are of whole seconds."""
    from gto.api import history

    found = [event for event in history(str(root), NAME, ascending=True) if event["event"] == kind]
    if kind == "assignment":
        found = [event for event in found if event["stage"] == STAGE]
    return sorted(found, key=lambda event: [int(number) for number in re.findall(r"\d+", event["ref"])])
