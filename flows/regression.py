"""Whether a measurement is worse than the last good one: kept results, and a pure comparison."""

from pathlib import Path

from envace.benchmarks.base import BenchmarkResult
from envace.benchmarks.stats import bootstrap_interval, mean
from envace.files import read_json, write_json
from envace.trajectory.records import Record

GOOD = "good.json"
"""Last good result, in a benchmark's folder."""


class Change(Record):
    """A measurement beside the last good one."""

    tasks: int
    """Tasks compared; 0 where there is nothing to compare with."""
    change: float = 0.0
    """Success now minus success then, over those tasks."""
    low: float = 0.0
    """Lower end of its interval."""
    high: float = 0.0
    """Upper end of it."""

    @property
    def regressed(self) -> bool:
        """Worse, and not by chance."""
        return self.tasks > 0 and self.high < 0


def compared(good: BenchmarkResult | None, now: BenchmarkResult, confidence: float) -> Change:
    """Compare two results of one benchmark task by task, by the paired bootstrap.

    Results of other data or of another harness or seed are not comparable, and count as absent.
    """
    if good is None or (good.dataset_sha, good.harness, good.seed) != (
        now.dataset_sha,
        now.harness,
        now.seed,
    ):
        return Change(tasks=0)
    before = {task.id: task.success for task in good.tasks if task.success is not None}
    differences = [
        task.success - before[task.id] for task in now.tasks if task.success is not None and task.id in before
    ]
    if not differences:
        return Change(tasks=0)
    low, high = bootstrap_interval([differences], now.seed, confidence)
    return Change(tasks=len(differences), change=mean(differences), low=low, high=high)


def last_good(folder: Path) -> BenchmarkResult | None:
    """The result that the next one is compared with."""
    file = folder / GOOD
    return BenchmarkResult.model_validate(read_json(file)) if file.is_file() else None


def keep_good(folder: Path, result: BenchmarkResult) -> None:
    """Make a result the one to compare with."""
    write_json(folder / GOOD, result.model_dump(mode="json"))
