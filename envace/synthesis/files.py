"""Trajectories that are there already: recorded, imported, corrected by hand."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.synthesis.base import Made
from envace.trajectory import Line, iter_tolerant
from envace.trajectory.jsonl import numbered_lines


class Files:
    """Trajectories of JSONL files, in the order of the files and their lines."""

    def __init__(self, paths: str | Sequence[str]) -> None:
        """Choose files; nothing is read yet.

        Args:
            paths: Files of trajectories. DVC watches their names, not what is in them.

        Raises:
            EnvaceError: No file is named.
        """
        self.paths = [Path(path) for path in ([paths] if isinstance(paths, str) else paths)]
        if not self.paths:
            raise EnvaceError("source files: no paths", "name at least one file")

    def generate(self, count: int | None, seed: int, scratch: Path) -> Iterator[Made]:
        """See `Source.generate`; of more lines than `count`, a sample is drawn, which keeps its order.

        Raises:
            EnvaceError: A file is absent.
        """
        total = sum(1 for path in self.paths for _ in numbered_lines(path))
        wanted = total if count is None else min(count, total)
        chosen = set(random.Random(f"files/{seed}").sample(range(total), wanted))
        lines = (line for path in self.paths for line in iter_tolerant(path))
        for number, line in enumerate(lines):
            if number in chosen:
                yield line.trajectory if isinstance(line, Line) else line

    def facts(self) -> dict[str, Any]:
        """See `Source.facts`."""
        return {}
