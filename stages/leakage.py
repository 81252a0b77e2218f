"""leakage: training data against the test sets of the benchmarks and the held-out tasks → data/clean."""

from collections.abc import Iterable
from pathlib import Path

from envace.benchmarks import BENCHMARKS, benchmark
from envace.files import atomic_folder
from envace.leakage import EvalItem, LeakageFiles, canonical_calls, check_files
from envace.params import Params
from envace.trajectory import Task, iter_records, write_records
from envace.worlds.names import pool
from envace.worlds.tasks import solve
from stages.base import METRICS, run

ITEMS = Path("data/items")


def main(params: Params) -> None:
    """List the test items of every benchmark, compare, and apply the policy."""
    files = []
    for name in params.leakage.against:
        file = ITEMS / f"{name}.jsonl"
        write_records(file, _held_out() if name not in BENCHMARKS else _test_set(name))
        files.append(file)
    with atomic_folder(Path("data/clean")) as folder:
        check_files(
            Path("data/filtered/trajectories.jsonl"),
            files,
            LeakageFiles(
                clean=folder / "trajectories.jsonl",
                quarantine=folder / "quarantine.jsonl",
                matches=folder / "matches.jsonl",
                metrics=METRICS / "leakage.json",
            ),
            params.leakage.policy,
        )


def _test_set(name: str) -> Iterable[EvalItem]:
    """The test items of a benchmark."""
    return (EvalItem.model_validate(item.model_dump()) for item in benchmark(name).items())


def _held_out() -> Iterable[EvalItem]:
    """The project's own evaluation tasks: printed state and goal, with the expert's calls.

    Calls that name no held-out entity ("events of monday") are no fingerprint of a task.
    """
    names = set(pool("held_out").names)
    for task in iter_records("data/synthetic/held_out.jsonl", Task):
        calls = [step.call for step in solve(task)[0]]
        named = any(value in names for call in calls for value in call.arguments.values())
        yield EvalItem(
            benchmark="worlds",
            id=task.id,
            split="held_out",
            text="\n".join(message.content for message in task.messages),
            tools=tuple(tool.name for tool in task.tools),
            schemas={tool.name: tuple(tool.parameters["properties"]) for tool in task.tools},
            gold_calls=canonical_calls(calls) if named else "",
        )


if __name__ == "__main__":
    run(main)
