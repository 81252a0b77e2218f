"""Reading and comparing a trajectory file chunk by chunk, in this process or in several."""

import multiprocessing
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing.pool import AsyncResult
from pathlib import Path

from envace.garbage import collect_seldom, seldom_collected
from envace.leakage.methods import Choice
from envace.leakage.records import EvalItem
from envace.leakage.search import Partial, Search
from envace.progress import counted
from envace.trajectory import Quarantined
from envace.trajectory.jsonl import numbered_lines
from envace.trajectory.quick import read_line

CHUNK = 256
"""Trajectories compared at once: their token hashes stay in the processor's cache."""
AHEAD = 4
"""Chunks under way for each worker; more would only take memory."""

Numbered = list[tuple[int, str]]
"""Lines of a file with their numbers."""


@dataclass(frozen=True)
class Looked:
    """What comparing a chunk of lines gave."""

    broken: list[Quarantined | None]
    """For every line, why it is no trajectory, or None."""
    partial: Partial
    """What was found in those that are."""


def look_through(file: Path, search: Search, workers: int) -> Iterator[tuple[Numbered, Looked]]:
    """Compare a trajectory file with the items of `search`, in the order of its lines.

    Args:
        file: Trajectory file.
        search: Says what to look for; it takes in nothing here.
        workers: Processes; each makes a search of its own, which costs a second or two.

    Raises:
        EnvaceError: The file is absent or not UTF-8.
    """
    lines = counted(numbered_lines(file), "leakage")
    chunks = iter(lambda: list(islice(lines, CHUNK)), [])
    with seldom_collected():
        if workers == 1:
            for chunk in chunks:
                yield chunk, _look(search, str(file), chunk)
            return
        waiting: deque[tuple[Numbered, AsyncResult[Looked]]] = deque()
        # Spawned, not forked: an encoder's threads would not survive a fork.
        with multiprocessing.get_context("spawn").Pool(
            workers, _prepare, (search.items, search.methods)
        ) as pool:
            for chunk in chunks:
                waiting.append((chunk, pool.apply_async(_look_here, (str(file), chunk))))
                if len(waiting) > AHEAD * workers:
                    done, result = waiting.popleft()
                    yield done, result.get()
            for done, result in waiting:
                yield done, result.get()


def _look(search: Search, file: str, lines: Numbered) -> Looked:
    read = [read_line(file, number, text) for number, text in lines]
    partial = search.look([line for line in read if not isinstance(line, Quarantined)])
    return Looked([line if isinstance(line, Quarantined) else None for line in read], partial)


_here: list[Search] = []
"""The search of this worker process."""


def _prepare(items: list[EvalItem], methods: Choice) -> None:
    collect_seldom()
    _here.append(Search(items, methods))


def _look_here(file: str, lines: Numbered) -> Looked:
    return _look(_here[0], file, lines)
