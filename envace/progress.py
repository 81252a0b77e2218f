"""Progress of long work: a bar with ETA on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

LINE_EVERY = 10.0
"""Seconds between progress lines where there is no terminal."""


def track(items: Sequence[T], label: str, start: int = 0, shown: bool = True) -> Iterator[T]:
    """Iterate over `items` from index `start`, showing progress.

    Args:
        items: What to work through.
        label: Shown in front.
        start: First index still to do; a resumed run passes what is done.
        shown: False iterates in silence, where another process shows the same.
    """
    if not shown:
        yield from items[start:]
    elif sys.stderr.isatty():
        yield from _bar(items, label, start)
    else:
        yield from _lines(items, label, start)


def _bar(items: Sequence[T], label: str, start: int) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=len(items), completed=start)
        for index in range(start, len(items)):
            yield items[index]
            progress.advance(task)


def _lines(items: Sequence[T], label: str, start: int) -> Iterator[T]:
    begun = last = time.monotonic()
    for index in range(start, len(items)):
        yield items[index]
        now = time.monotonic()
        if now - last >= LINE_EVERY or index + 1 == len(items):
            last = now
            left = (now - begun) / (index + 1 - start) * (len(items) - index - 1)
            print(f"{label}: {index + 1}/{len(items)}, {left:.0f} s left", file=sys.stderr, flush=True)


def counted(items: Iterable[T], label: str) -> Iterator[T]:
    """Iterate over a stream of unknown length, now and then saying how much went by."""
    said = time.monotonic()
    for number, item in enumerate(items):
        # Asking for the time is cheap, but not next to a line of JSON.
        if number % 256 == 0 and time.monotonic() - said >= LINE_EVERY:
            said = time.monotonic()
            print(f"{label}: {number} read", file=sys.stderr, flush=True)
        yield item
