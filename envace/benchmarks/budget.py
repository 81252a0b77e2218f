"""Real success against the budget of rehearsal: every strategy at every budget, executed for real.

The number of real calls stays that of acting at once; what grows is private. The controls spend
tokens without predicting anything, so a gain of theirs is one of sampling or of words.
"""

from collections.abc import Sequence

from envace.benchmarks import stats
from envace.benchmarks.base import ALL, Group, TaskResult, summarize
from envace.benchmarks.worlds import execute
from envace.progress import track
from envace.rehearsal.base import Policy
from envace.rehearsal.strategies import strategy
from envace.trajectory import Task
from envace.trajectory.records import Record

BUDGETS = (1, 2, 4, 8)
REHEARSALS = ("parallel", "sequential", "stepwise")
CONTROLS = ("best_of_n", "react", "reflexion")
BASELINE = "none"


class Cell(Record):
    """One strategy at one budget."""

    strategy: str
    """Its name, without the budget."""
    budget: int
    """Its budget; 0 for acting at once."""
    success: Group
    """Share of tasks whose real execution succeeded; over several templates, the mean of theirs."""
    gain: float
    """Mean difference to acting at once, paired by task; 0 for acting at once itself."""
    gain_low: float
    """Lower end of its 95 % bootstrap interval."""
    gain_high: float
    """Upper end of it."""
    real_calls: float
    """Calls to the environment a task."""
    act_tokens: float
    """Tokens of committed turns a task."""
    private_tokens: float
    """Tokens written in private a task."""


def sweep(
    policy: Policy,
    tasks: Sequence[Task],
    strategies: Sequence[str] = (*REHEARSALS, *CONTROLS),
    budgets: Sequence[int] = BUDGETS,
    seed: int = 0,
) -> list[Cell]:
    """Measure acting at once, then every strategy at every budget, on the same tasks.

    Args:
        policy: The policy.
        tasks: Tasks of executable worlds.
        strategies: Names without a budget.
        budgets: Budgets above 0.
        seed: Seed of rehearsals and intervals.

    Returns:
        The baseline, then the cells by strategy and budget in the order given.
    """
    names = [(BASELINE, 0), *((name, budget) for name in strategies for budget in budgets)]
    cells: list[Cell] = []
    baseline: list[TaskResult] = []
    for name, budget in track(names, "rehearsal budget"):
        chosen = strategy(f"{name}-{budget}" if budget else name)
        results, _ = execute(policy, tasks, chosen, seed)
        baseline = baseline or results
        cells.append(cell_of(name, budget, results, baseline, seed))
    return cells


def cell_of(
    name: str, budget: int, results: Sequence[TaskResult], baseline: Sequence[TaskResult], seed: int
) -> Cell:
    """A strategy's results against those of acting at once, task by task in the same order."""
    by_category: dict[str, list[float]] = {}
    for mine, base in zip(results, baseline, strict=True):
        by_category.setdefault(mine.category, []).append(float((mine.success or 0) - (base.success or 0)))
    strata = list(by_category.values())
    low, high = stats.bootstrap_interval(strata, seed)
    return Cell(
        strategy=name,
        budget=budget,
        success=summarize(results, {result.id: 0 for result in results}, seed)[ALL],
        gain=stats.macro_mean(strata),
        gain_low=low,
        gain_high=high,
        real_calls=stats.mean([result.steps for result in results]),
        act_tokens=stats.mean([result.act_tokens for result in results]),
        private_tokens=stats.mean([result.rehearsal_tokens for result in results]),
    )
