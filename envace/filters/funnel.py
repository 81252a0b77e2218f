"""The funnel: every trajectory passes the rules in order, or is set aside with the first reason."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from envace.errors import EnvaceError
from envace.files import atomic_text
from envace.garbage import seldom_collected
from envace.progress import counted
from envace.trajectory import Line, Quarantined, Trajectory, iter_tolerant
from envace.trajectory.jsonl import record_line
from envace.trajectory.records import Record

Rule = Callable[[Trajectory], str | None]
"""Returns why a trajectory is refused, in one line, or None to let it pass."""

EXAMPLES = 3
"""Refused records shown per rule."""
WINDOW = 256
"""Records that pass the rules together."""
READING = ("json", "schema")
"""Rules that reading stands for: a line that is no JSON, or no trajectory."""


@runtime_checkable
class Surveying(Protocol):
    """A rule that must have seen every record before it can refuse one."""

    def survey(self, trajectory: Trajectory) -> None:
        """Take a record into account."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A rule that is faster on several records at once."""

    def many(self, trajectories: Sequence[Trajectory]) -> Sequence[str | None]:
        """What the rule says of each record, in order."""
        ...


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


@dataclass
class Tally:
    """Counts while records pass."""

    read: int = 0
    """Records that came in."""
    refused: dict[str, int] = field(default_factory=dict)
    """Records set aside, by rule."""
    examples: dict[str, list[Example]] = field(default_factory=dict)
    """The first few of them."""

    def add(self, result: Line | Quarantined) -> None:
        """Count a record that passed or was set aside."""
        self.read += 1
        if isinstance(result, Quarantined):
            self.refused[result.rule] = self.refused.get(result.rule, 0) + 1
            shown = self.examples.setdefault(result.rule, [])
            if len(shown) < EXAMPLES:
                shown.append(Example(where=f"{result.file}:{result.line}", reason=result.reason))

    def result(self, rules: Iterable[str]) -> "FunnelResult":
        """The counts by rule: what enters one is what the rule before it let through."""
        counts = {}
        entering = self.read
        for name in [*(name for name in READING if name in self.refused), *rules]:
            refused = self.refused.get(name, 0)
            examples = tuple(self.examples.get(name, ()))
            counts[name] = RuleCount(entered=entering, refused=refused, examples=examples)
            entering -= refused
        return FunnelResult(read=self.read, kept=entering, rules=counts)


@dataclass(frozen=True)
class FunnelResult:
    """Counts of a whole run."""

    read: int
    """Records that came in."""
    kept: int
    """Records that passed every rule."""
    rules: dict[str, RuleCount]
    """Counts by rule, in the order the rules ran."""

    @property
    def quarantined(self) -> int:
        """Records set aside."""
        return self.read - self.kept

    @property
    def loss(self) -> float:
        """Share of the records set aside, in [0, 1]."""
        return self.quarantined / self.read if self.read else 0.0

    def require(self, max_loss: float) -> None:
        """Raise a one-line error when more than `max_loss` (a share) was set aside."""
        if self.loss > max_loss:
            worst = max(self.rules, key=lambda name: self.rules[name].refused)
            first = self.rules[worst].examples[0]
            raise EnvaceError(
                f"the filter set aside {self.quarantined} of {self.read} trajectories "
                f"({self.loss:.1%}, allowed {max_loss:.1%}), most by {worst}: {first.where}: {first.reason}",
                "look into the quarantine file, mend the data or raise max_loss",
            )

    def metrics(self) -> dict[str, Any]:
        """Counts and examples as plain JSON values."""
        return {
            "read": self.read,
            "kept": self.kept,
            "quarantined": self.quarantined,
            "loss": self.loss,
            "rules": {name: count.model_dump(mode="json") for name, count in self.rules.items()},
        }


def sift(
    records: Iterable[Line | Quarantined], rules: Mapping[str, Rule], tally: Tally
) -> Iterator[Line | Quarantined]:
    """Pass records through the rules in order; the first rule that refuses one sets it aside.

    Args:
        records: Lines, and those that could not be read, which pass through as they are.
        rules: Rules by name, from `make_rules`; stateful ones must be fresh, and surveyed.
        tally: Counts what comes out.
    """
    stream = iter(records)
    while window := list(islice(stream, WINDOW)):
        verdicts = iter(_verdicts([line.trajectory for line in window if isinstance(line, Line)], rules))
        for record in window:
            verdict = next(verdicts) if isinstance(record, Line) else None
            result = record.refused(*verdict) if verdict and isinstance(record, Line) else record
            tally.add(result)
            yield result


def _verdicts(trajectories: Sequence[Trajectory], rules: Mapping[str, Rule]) -> list[tuple[str, str] | None]:
    """For every trajectory the first rule that refuses it, and why."""
    verdicts: list[tuple[str, str] | None] = [None] * len(trajectories)
    for name, rule in rules.items():
        left = [index for index, verdict in enumerate(verdicts) if verdict is None]
        entering = [trajectories[index] for index in left]
        reasons = rule.many(entering) if isinstance(rule, Windowed) else [rule(t) for t in entering]
        for index, reason in zip(left, reasons, strict=True):
            if reason is not None:
                verdicts[index] = name, reason
    return verdicts


def filter_files(
    paths: Sequence[Path], out: Path, quarantine: Path, rules: Mapping[str, Rule], max_loss: float = 1.0
) -> FunnelResult:
    """Filter trajectory files into `out`; what is refused goes to `quarantine`, whole.

    Files are streamed, twice when a rule has to survey them. Lines that are kept stay as they are. The
    quarantine is written even when the loss is too high, so that it can be looked at.

    Raises:
        EnvaceError: A file is absent, or more than `max_loss` (a share) was refused.
    """
    every: list[object] = list(rules.values())
    surveying = [rule for rule in every if isinstance(rule, Surveying)]
    if surveying:
        for record in counted(_read(paths), "survey"):
            if isinstance(record, Line):
                for rule in surveying:
                    rule.survey(record.trajectory)
    tally = Tally()
    with atomic_text(out) as kept:
        with atomic_text(quarantine) as aside, seldom_collected():
            for result in counted(sift(_read(paths), rules, tally), "filter"):
                if isinstance(result, Line):
                    kept.write(result.text + "\n")
                else:
                    aside.write(record_line(result))
        counts = tally.result(rules)
        counts.require(max_loss)
    return counts


def _read(paths: Sequence[Path]) -> Iterator[Line | Quarantined]:
    return (record for path in paths for record in iter_tolerant(path))
