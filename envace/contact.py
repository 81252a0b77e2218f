"""Contact with executable environments, counted where a world executes a call.

Whoever must not reach an environment, above all a private rehearsal, runs inside `counted` and
reads the count afterwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Contact:
    """A counter."""

    calls: int = 0
    """Calls that an environment executed."""


_COUNTING: ContextVar[tuple[Contact, ...]] = ContextVar("counting", default=())


def touch() -> None:
    """A world executes a call."""
    for contact in _COUNTING.get():
        contact.calls += 1


@contextmanager
def counted() -> Iterator[Contact]:
    """Count the calls executed by the block, in this thread; blocks may nest."""
    contact = Contact()
    token = _COUNTING.set((*_COUNTING.get(), contact))
    try:
        yield contact
    finally:
        _COUNTING.reset(token)
