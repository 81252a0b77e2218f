"""The registry of sources, and how they are mixed: a new one is one file and one line in `SOURCES`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.files import atomic_text, write_json
from envace.options import with_options
from envace.synthesis.base import Made, Source, kept
from envace.synthesis.files import Files
from envace.synthesis.mcp import Mcp
from envace.synthesis.rollouts import Rollouts
from envace.synthesis.tau2 import Tau2Gold
from envace.synthesis.worlds import Worlds
from envace.trajectory import Quarantined, Trajectory, write_records
from envace.trajectory.jsonl import record_line

SOURCES: dict[str, Callable[..., Source]] = {
    "worlds": Worlds,
    "tau2": Tau2Gold,
    "mcp": Mcp,
    "rollouts": Rollouts,
    "files": Files,
}
"""Makers of sources by name."""


def make_source(name: str, options: Mapping[str, Any]) -> Source:
    """A source from its options.

    Raises:
        EnvaceError: An unknown source or option, or one without a usable value.
    """
    if name not in SOURCES:
        raise EnvaceError(f"unknown source {name!r}", f"choose from {', '.join(SOURCES)}")
    return with_options(f"source {name}", SOURCES[name], options)


@dataclass
class Share:
    """What one source added to a mixture."""

    trajectories: int = 0
    """Trajectories made."""
    quarantined: list[Quarantined] = field(default_factory=list)
    """What could not be made."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What it cost."""

    def metrics(self) -> dict[str, Any]:
        """Counts and cost."""
        return {"trajectories": self.trajectories, "quarantined": len(self.quarantined), **self.facts}


def mixed_in(
    sources: Mapping[str, Mapping[str, Any]], base: int, seed: int, scratch: Path, shares: dict[str, Share]
) -> Iterator[Trajectory]:
    """Trajectories of further sources, one source after another.

    Args:
        sources: Options by name, each with the `count` of tasks to try, or a `weight`: tasks to try for
            each trajectory of the base.
        base: Trajectories of the base.
        seed: Seed of every source.
        scratch: Folder for what a resumed run need not pay for again.
        shares: Gets what each source added.

    Raises:
        EnvaceError: A source that is not as described, or that fails.
    """
    planned = {name: _planned(name, options, base) for name, options in sources.items()}
    for name, (source, count) in planned.items():
        share = shares[name] = Share()
        made = source.generate(count, seed, scratch / f"{name}.jsonl")
        for trajectory in kept(made, share.quarantined.append):
            share.trajectories += 1
            yield trajectory
        share.facts = source.facts()


def _planned(name: str, options: Mapping[str, Any], base: int) -> tuple[Source, int]:
    own = {key: value for key, value in options.items() if key not in ("count", "weight")}
    count, weight = options.get("count"), options.get("weight")
    if (count is None) == (weight is None):
        raise EnvaceError(f"source {name}: count or weight, one of the two", "mend synthesize.sources")
    return make_source(name, own), int(count) if count is not None else round((weight or 0) * base)


def write_source(name: str, options: Mapping[str, Any], count: int | None, seed: int, out: Path) -> Share:
    """Write the trajectories of one source to a file.

    Beside it come `NAME.quarantine.jsonl`, `NAME.metrics.json`, and from a source that pays for answers
    `NAME.journal.jsonl`, from which a killed run goes on.

    Raises:
        EnvaceError: The source fails; a former output stays as it was.
    """
    source, share = make_source(name, options), Share()
    made: Iterator[Made] = source.generate(count, seed, out.with_suffix(".journal.jsonl"))
    share.trajectories = write_records(out, kept(made, share.quarantined.append))
    share.facts = source.facts()
    with atomic_text(out.with_suffix(".quarantine.jsonl")) as handle:
        handle.writelines(map(record_line, share.quarantined))
    write_json(out.with_suffix(".metrics.json"), {"source": name} | share.metrics())
    return share
