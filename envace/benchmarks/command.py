"""`envace evaluate`: a benchmark against any OpenAI-compatible server, and a table of its scores."""

import argparse

from rich.console import Console
from rich.table import Table

from envace.benchmarks import benchmark
from envace.benchmarks.base import BenchmarkResult
from envace.options import parse_options


def evaluate(arguments: argparse.Namespace) -> None:
    """Run what the command line names, write the result, show the scores.

    Raises:
        EnvaceError: No such benchmark or option, no harness, or the endpoint fails.
    """
    adapter = benchmark(arguments.benchmark, **parse_options(arguments.options))
    out = arguments.out / adapter.name
    result = adapter.run(
        arguments.url,
        arguments.limit,
        arguments.seed,
        out,
        arguments.strategy,
        arguments.served,
        arguments.trials,
    )
    show(result, Console())
    print(f"{out}/result.json has every task, answers.jsonl every answer")


def show(result: BenchmarkResult, console: Console) -> None:
    """A table of a result: success with its 95 % interval, the floor beside it, and tokens a task."""
    table = Table(title=f"{result.benchmark}: {result.model}", caption=result.protocol)
    for name in ("group", "tasks", "errors", "success %", "95 % interval", "floor %"):
        table.add_column(name, justify="left" if name == "group" else "right")
    for name, group in result.groups.items():
        table.add_row(
            name,
            f"{group.n:,}",
            str(group.errors or ""),
            f"{100 * group.mean:.1f}" + ("" if group.se is None else f" ± {100 * group.se:.1f}"),
            f"{100 * group.ci_low:.1f} to {100 * group.ci_high:.1f}",
            f"{100 * group.floor:.1f}",
        )
    console.print(table)
    for name, value in result.measures.items():
        console.print(f"{name}: {value:.3f}", highlight=False)
    tasks = max(1, len(result.tasks))
    acting = sum(task.act_tokens for task in result.tasks) / tasks
    rehearsing = sum(task.rehearsal_tokens for task in result.tasks) / tasks
    console.print(
        f"tokens a task: {acting:,.0f} acting, {rehearsing:,.0f} rehearsing; "
        f"{'official' if result.official else 'internal: not to be set beside published numbers'}",
        highlight=False,
    )
