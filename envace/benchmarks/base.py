"""Records every benchmark gives back, and the protocol they all follow."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pydantic import Field

from envace.benchmarks import stats
from envace.trajectory.records import Record

ALL = "all"
"""Name of the group over all categories."""


class BenchmarkItem(Record):
    """One test item as the leakage check sees it."""

    benchmark: str
    """Benchmark it belongs to."""
    id: str
    """Id within the benchmark."""
    split: str
    """Category or split."""
    text: str
    """Everything the user says or is told to want."""
    tools: tuple[str, ...] = ()
    """Names of the tools on offer."""
    schemas: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Parameter names by tool."""
    gold_calls: str = ""
    """Reference calls as compact JSON with sorted keys; empty where there are none."""


class TaskResult(Record):
    """What happened on one task."""

    id: str
    """Id within the benchmark."""
    category: str
    """Category or domain."""
    trial: int = 0
    """Which of the trials of this task."""
    success: int | None = Field(ge=0, le=1)
    """1 or 0; None when the harness itself failed on the task."""
    scores: dict[str, float] = Field(default_factory=dict)
    """Parts of the score by name, each in [0, 1]."""
    act_tokens: int = 0
    """Tokens of the turns returned."""
    rehearsal_tokens: int = 0
    """Tokens rehearsed privately."""
    steps: int = 0
    """Requests made to the model."""
    error: str = ""
    """Why it failed, in a few words; empty on success."""


class Group(Record):
    """A score over a set of tasks; tasks whose success is None are left out and counted."""

    mean: float
    """Share of successes; for `all`, the unweighted mean over categories."""
    se: float | None
    """Standard error of the mean; None when a category has fewer than two tasks."""
    n: int
    """Tasks scored, whatever their trials."""
    errors: int
    """Trials left out because the harness failed on them."""
    ci_low: float
    """Lower end of the 95 % bootstrap interval."""
    ci_high: float
    """Upper end of it."""
    floor: float
    """What an agent that does nothing scores on the same tasks."""


class BenchmarkResult(Record):
    """A benchmark's result; equal seeds and answers give equal bytes, so it holds no times."""

    benchmark: str
    """Name in the registry."""
    model: str
    """Name the server gave its model."""
    strategy: str
    """How the served model answers: `direct` or a rehearsal strategy."""
    protocol: str
    """What was run, in a sentence or two."""
    official: bool
    """True when the numbers may be set beside published ones."""
    harness: str
    """Package and version."""
    dataset_sha: str
    """Digest of the data files."""
    seed: int
    """Seed of the sample and of every request; each further trial adds one to the latter."""
    trials: int = 1
    """How often every task was tried."""
    user_simulator: str = "none"
    """Who played the user."""
    judge: str = "none"
    """Who judged beyond rules."""
    groups: dict[str, Group]
    """Scores by category, and `all`."""
    measures: dict[str, float] = Field(default_factory=dict)
    """Scores of the benchmark's own over all tasks by name, as the protocol explains them."""
    tasks: tuple[TaskResult, ...]
    """Every task."""


def summarize(tasks: Sequence[TaskResult], floors: Mapping[str, int], seed: int) -> dict[str, Group]:
    """Groups by category and over all.

    Args:
        tasks: Results; the order of categories is that of their first task.
        floors: Success of an agent that does nothing, by task id.
        seed: Seed of the bootstrap.
    """
    by_category: dict[str, list[TaskResult]] = {}
    for task in tasks:
        by_category.setdefault(task.category, []).append(task)
    named = {name: [rows] for name, rows in by_category.items()} | {ALL: list(by_category.values())}
    return {name: _group(strata, floors, seed) for name, strata in named.items()}


def _group(strata: list[list[TaskResult]], floors: Mapping[str, int], seed: int) -> Group:
    scored = [values for rows in strata if (values := _task_means(rows))] or [[0.0]]
    low, high = stats.bootstrap_interval(scored, seed)
    return Group(
        mean=stats.macro_mean(scored),
        se=stats.macro_standard_error(scored),
        n=sum(len(_task_means(rows)) for rows in strata),
        errors=sum(t.success is None for rows in strata for t in rows),
        ci_low=low,
        ci_high=high,
        floor=stats.macro_mean([[float(floors[t.id]) for t in rows] for rows in strata]),
    )


def _task_means(rows: Sequence[TaskResult]) -> list[float]:
    """Success of every scored task; the trials of one are not independent, so they are averaged first."""
    return [stats.mean(trials) for trials in trials_of(rows)]


def trials_of(rows: Sequence[TaskResult]) -> list[list[int]]:
    """Successes of every task, trial by trial; what has no score is left out."""
    by_id: dict[str, list[int]] = {}
    for row in rows:
        if row.success is not None:
            by_id.setdefault(row.id, []).append(row.success)
    return list(by_id.values())


class Benchmark(Protocol):
    """One benchmark behind its adapter."""

    name: str
    """Name in the registry."""
    harness: str
    """Name of the harness it runs in."""

    def run(
        self,
        base_url: str,
        limit: int,
        seed: int,
        out: Path,
        strategy: str = "direct",
        identity: str | None = None,
        trials: int = 1,
    ) -> BenchmarkResult:
        """Measure the model served at `base_url` and write `result.json` and `answers.jsonl` into `out`.

        Args:
            base_url: OpenAI-compatible address ending in `/v1`.
            limit: Tasks a category; 0 for all.
            seed: Seed of the sample and of every request.
            out: Folder that appears whole or not at all.
            strategy: How the served model answers; recorded, not interpreted.
            identity: What is served, such as a digest of its weights. With one, a run that was killed or
                failed goes on where it was when all else is equal, too; None starts anew.
            trials: How often every task is tried, with a seed of its own each time; from 2 on, `measures` has
                `pass^k`, the chance that k trials of a task all succeed.

        Raises:
            EnvaceError: when the harness is not installed, or the endpoint fails.
        """
        ...

    def floor(self) -> dict[str, float]:
        """Score of an agent that does nothing, over all tasks, by group."""
        ...

    def check(self) -> dict[str, dict[str, float]]:
        """Scores over all tasks of answers that need no model, by mode and group.

        `gold` must score 1 and `spoiled`, where there is one, 0: that proves the installation. `nothing` is
        the floor.
        """
        ...

    def items(self) -> list[BenchmarkItem]:
        """All test items, for the leakage check."""
        ...
