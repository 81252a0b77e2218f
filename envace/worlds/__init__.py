"""Executable worlds: a new one is one file and one line in `WORLDS`."""

from envace.errors import EnvaceError
from envace.worlds.agenda import Agenda
from envace.worlds.base import World
from envace.worlds.courier import Courier
from envace.worlds.stays import Stays
from envace.worlds.store import Store

WORLDS: dict[str, type[World]] = {world.name: world for world in (Store, Stays, Agenda, Courier)}


def world(name: str) -> type[World]:
    """The world of that name."""
    if name not in WORLDS:
        raise EnvaceError(f"no world named {name!r}", f"one of {', '.join(WORLDS)}")
    return WORLDS[name]
