"""The funnel: every trajectory passes the rules in order, or is set aside with the first reason."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError
from envace.trajectory import Quarantined, Trajectory, compact, read_tolerant, write_records
from envace.trajectory.jsonl import numbered_lines
from envace.trajectory.records import Record

Rule = Callable[[Trajectory], str | None]
"""Returns why a trajectory is refused, in one line, or None to let it pass."""

EXAMPLES = 3
"""Refused records shown per rule."""


class Example(Record):
    """A refused record, for the report."""

    where: str
    """File and line."""
    reason: str
    """Why it was refused."""


class RuleCount(Record):
    """What one rule saw."""

    entered: int
    """Records that reached the rule."""
    refused: int
    """Records it set aside; the others went on."""
    examples: tuple[Example, ...] = ()
    """The first few it refused."""


@dataclass(frozen=True)
class FunnelResult:
    """Kept plus quarantined equals what came in."""

    kept: list[Trajectory]
    """Records that passed every rule, in order."""
    quarantined: list[Quarantined]
    """The others, each with the rule and the reason."""
    rules: dict[str, RuleCount]
    """Counts by rule, in the order the rules ran."""

    @property
    def read(self) -> int:
        """How many records came in."""
        return len(self.kept) + len(self.quarantined)

    @property
    def loss(self) -> float:
        """Share of the records set aside, in [0, 1]."""
        return len(self.quarantined) / self.read if self.read else 0.0

    def require(self, max_loss: float) -> None:
        """Raise a one-line error when more than `max_loss` (a share) was set aside."""
        if self.loss > max_loss:
            worst = max(self.rules, key=lambda name: self.rules[name].refused)
            first = self.rules[worst].examples[0]
            raise EnvaceError(
                f"the filter set aside {len(self.quarantined)} of {self.read} trajectories "
                f"({self.loss:.1%}, allowed {max_loss:.1%}), most by {worst}: {first.where}: {first.reason}",
                "look into the quarantine file, mend the data or raise max_loss",
            )

    def metrics(self) -> dict[str, Any]:
        """Counts and examples as plain JSON values."""
        return {
            "read": self.read,
            "kept": len(self.kept),
            "quarantined": len(self.quarantined),
            "loss": self.loss,
            "rules": {name: count.model_dump(mode="json") for name, count in self.rules.items()},
        }


def run_funnel(
    trajectories: Iterable[Trajectory],
    rules: Mapping[str, Rule],
    *,
    places: Sequence[tuple[str, int]] | None = None,
    unreadable: Sequence[Quarantined] = (),
) -> FunnelResult:
    """Pass every trajectory through the rules in order; the first that refuses it names the reason.

    Args:
        trajectories: What to filter.
        rules: Rules by name, from `make_rules`; stateful ones must be fresh.
        places: (file, line) of every trajectory, for the quarantine; `<memory>` and the
            position from 1 where absent.
        unreadable: Lines that did not parse: counted first, under the rules `json` and `schema`.
    """
    kept: list[Trajectory] = []
    quarantined = list(unreadable)
    passing = 0
    for number, trajectory in enumerate(trajectories):
        passing += 1
        verdict = _first_refusal(trajectory, rules)
        if verdict is None:
            kept.append(trajectory)
            continue
        file, line = places[number] if places else ("<memory>", number + 1)
        record = compact(trajectory.model_dump(mode="json", exclude_defaults=True))
        rule, reason = verdict
        quarantined.append(Quarantined(file=file, line=line, rule=rule, reason=reason, record=record))
    return FunnelResult(kept, quarantined, _count(passing, quarantined, rules))


def _first_refusal(trajectory: Trajectory, rules: Mapping[str, Rule]) -> tuple[str, str] | None:
    for name, rule in rules.items():
        reason = rule(trajectory)
        if reason is not None:
            return name, reason
    return None


def _count(
    readable: int, quarantined: Sequence[Quarantined], rules: Mapping[str, Rule]
) -> dict[str, RuleCount]:
    """Counts by rule: what enters one is what the rule before it let through."""
    refused: dict[str, list[Quarantined]] = {}
    for record in quarantined:
        refused.setdefault(record.rule, []).append(record)
    reading = [name for name in ("json", "schema") if name in refused]
    entering = readable + sum(len(refused[name]) for name in reading)
    counts = {}
    for name in [*reading, *rules]:
        mine = refused.get(name, [])
        examples = tuple(
            Example(where=f"{record.file}:{record.line}", reason=record.reason) for record in mine[:EXAMPLES]
        )
        counts[name] = RuleCount(entered=entering, refused=len(mine), examples=examples)
        entering -= len(mine)
    return counts


def filter_files(
    paths: Sequence[Path], out: Path, quarantine: Path, rules: Mapping[str, Rule], max_loss: float = 1.0
) -> FunnelResult:
    """Filter trajectory files into `out`; what is refused goes to `quarantine`, whole.

    The quarantine is written even when the loss is too high, so that it can be looked at.

    Raises:
        EnvaceError: A file is absent, or more than `max_loss` (a share) was refused.
    """
    trajectories: list[Trajectory] = []
    places: list[tuple[str, int]] = []
    unreadable: list[Quarantined] = []
    for path in paths:
        found = read_tolerant(path)
        bad = {record.line for record in found.quarantined}
        trajectories += found.trajectories
        places += [(str(path), line) for line, _ in numbered_lines(path) if line not in bad]
        unreadable += found.quarantined
    result = run_funnel(trajectories, rules, places=places, unreadable=unreadable)
    write_records(quarantine, result.quarantined)
    result.require(max_loss)
    write_records(out, result.kept)
    return result
