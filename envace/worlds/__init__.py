"""Executable worlds: a new one is one file and one line in `WORLDS`."""

from collections.abc import Iterable

from envace.errors import EnvaceError
from envace.worlds.agenda import Agenda
from envace.worlds.base import World
from envace.worlds.courier import Courier
from envace.worlds.ferry import Ferry
from envace.worlds.files import Files
from envace.worlds.messages import Messages
from envace.worlds.stays import Stays
from envace.worlds.store import Store

WORLDS: dict[str, type[World]] = {
    world.name: world for world in (Store, Stays, Agenda, Courier, Files, Messages, Ferry)
}

DEFAULT = ("store", "stays", "agenda", "courier")
"""Worlds of the default profile, fixed: a world added to the registry takes part only where it is named."""


def by_commitment(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The chained and the commit-once worlds among those named, in their order."""
    chosen = {name: world(name) for name in names}
    chained = [name for name, kind in chosen.items() if not kind.commit_once]
    return chained, [name for name in chosen if name not in chained]


def world(name: str) -> type[World]:
    """The world of that name."""
    if name not in WORLDS:
        raise EnvaceError(f"no world named {name!r}", f"one of {', '.join(WORLDS)}")
    return WORLDS[name]
