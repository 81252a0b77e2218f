"""What a source of trajectories is."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from envace.trajectory import Quarantined, Trajectory

Made = Trajectory | Quarantined
"""What a source makes of one task: a trajectory, or the reason why there is none."""


class Source(Protocol):
    """Makes trajectories."""

    def generate(self, count: int | None, seed: int, scratch: Path) -> Iterator[Made]:
        """Try `count` tasks; each gives a trajectory or is set aside.

        Args:
            count: Tasks to try; None is all there are.
            seed: Equal seeds make equal bytes, as far as a model behind an endpoint answers equally.
            scratch: File in which to keep what a resumed run need not pay for again.

        Raises:
            EnvaceError: Nothing can be made at all: a file, harness, model or endpoint is missing.
        """
        ...

    def facts(self) -> dict[str, Any]:
        """What `generate` cost, for the metrics; empty where it cost nothing but time."""
        ...


def kept(made: Iterable[Made], aside: Callable[[Quarantined], object]) -> Iterator[Trajectory]:
    """The trajectories; what was set aside goes to `aside`."""
    for result in made:
        if isinstance(result, Trajectory):
            yield result
        else:
            aside(result)
