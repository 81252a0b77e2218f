"""Python's cycle collector, kept out of the way of long streams of records."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_EVERY = 200_000
"""Allocations between runs. Records hold no cycles; at Python's default the collector walks all of them
again and again while a file is read, five times the cost of parsing."""


def collect_seldom() -> None:
    """Let the collector run seldom from now on."""
    gc.set_threshold(COLLECT_EVERY, 50, 50)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector run seldom while the block streams records."""
    former = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*former)
