"""leakage: training data against the test sets of the benchmarks and the held-out tasks → data/clean."""

from collections.abc import Iterable
from pathlib import Path

from envace.errors import EnvaceError
from envace.files import atomic_folder, write_json
from envace.leakage import EvalItem, LeakageFiles, check_files
from envace.leakage.sources import item, read_items
from envace.leakage.splits import crossings
from envace.params import Params
from envace.trajectory import Task, Trajectory, iter_records, write_records
from envace.worlds.names import pool
from envace.worlds.tasks import solve
from stages.base import METRICS, run

ITEMS = Path("data/items")
TRAIN = Path("data/filtered/trajectories.jsonl")


def main(params: Params) -> None:
    """List the test items of every benchmark, compare, and apply the policy."""
    tasks = list(iter_records("data/synthetic/held_out.jsonl", Task))
    items: list[EvalItem] = []
    for entry in params.leakage.against:
        found = list(_held_out(tasks) if entry == "worlds" else read_items(entry))
        write_records(ITEMS / f"{entry.partition('=')[0]}.jsonl", found)
        items += found
    with atomic_folder(Path("data/clean")) as folder:
        result = check_files(
            TRAIN,
            items,
            LeakageFiles(
                clean=folder / "trajectories.jsonl",
                quarantine=folder / "quarantine.jsonl",
                matches=folder / "matches.jsonl",
                metrics=METRICS / "leakage.json",
            ),
            params.leakage.policy,
        )
        left = iter_records(folder / "trajectories.jsonl", Trajectory)
        crossed = crossings(left, tasks) if params.leakage.policy == "remove" else []
        if crossed:
            raise EnvaceError(
                f"{len(crossed)} held-out parts of the worlds are left in training, first: "
                f"{crossed[0].kind} {crossed[0].what} in {crossed[0].train_id}",
                "mend the synthesis: a held-out score would mean nothing",
            )
    write_json(METRICS / "leakage.json", result.metrics() | {"crossings": len(crossed)})


def _held_out(tasks: Iterable[Task]) -> Iterable[EvalItem]:
    """The project's own evaluation tasks: printed state and goal, with the expert's calls.

    Calls that name no held-out entity ("events of monday") are no fingerprint of a task.
    """
    names = set(pool("held_out").names)
    for task in tasks:
        calls = [step.call for step in solve(task)[0]]
        named = any(value in names for call in calls for value in call.arguments.values())
        text = "\n".join(message.content for message in task.messages)
        yield item("worlds", task.id, text, task.tools, calls if named else (), split="held_out")


if __name__ == "__main__":
    run(main)
