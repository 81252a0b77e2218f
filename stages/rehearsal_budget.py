"""rehearsal_budget: real success against the budget of rehearsal → evaluation/rehearsal_budget/.

    python -m stages.rehearsal_budget                               tasks of the commit-once worlds
    python -m stages.rehearsal_budget WORLD … [--per-template N]    tasks of other worlds, or fewer of them

Before and after training, every strategy of private rehearsal and every control at budgets 1, 2, 4
and 8. A policy that has its result is not measured again; remove the folder after a change.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from envace.benchmarks.budget import Cell, sweep
from envace.errors import EnvaceError
from envace.files import atomic_text, read_json, write_json
from envace.params import Params
from envace.rehearsal.base import load_policy
from envace.report.budget import budget_table, draw_budget
from envace.trajectory import Task, iter_records
from envace.worlds import WORLDS, by_commitment
from stages.base import run, use_torch

OUT = Path("evaluation/rehearsal_budget")
TASKS = Path("data/synthetic/held_out.jsonl")
POLICIES = ("warmup", "trained")


def main(params: Params) -> None:
    """Measure both policies, then draw them together."""
    use_torch(params)
    parser = argparse.ArgumentParser(prog="python -m stages.rehearsal_budget")
    parser.add_argument("worlds", nargs="*", metavar="WORLD", default=by_commitment(params.worlds)[1])
    parser.add_argument("--per-template", type=int, metavar="N", help="tasks of a goal template at most")
    given = parser.parse_args()
    worlds = given.worlds
    if unknown := [name for name in worlds if name not in WORLDS]:
        raise EnvaceError(f"no world {unknown[0]!r}", f"one of {', '.join(WORLDS)}")
    out = OUT / "-".join([*worlds, *([str(given.per_template)] if given.per_template else [])])
    tasks = [task for task in iter_records(TASKS, Task) if task.world in worlds]
    tasks = list(first_of_each(tasks, given.per_template or len(tasks)))
    cells = {}
    for name in POLICIES:
        file = out / f"{name}.json"
        if not file.is_file():
            policy = load_policy(Path("models") / name, params.scale.device, params.scale.dtype)
            found = sweep(policy, tasks, seed=params.seed)
            write_json(file, [cell.model_dump(mode="json") for cell in found])
        cells[name] = [Cell.model_validate(cell) for cell in read_json(file)]
        print(f"{name}, {len(tasks)} tasks of {', '.join(worlds)}", *budget_table(cells[name]), sep="\n")
    with atomic_text(out / "success.svg") as handle:
        handle.write(draw_budget(cells))
    print(f"drawn in {out / 'success.svg'}")


def first_of_each(tasks: Iterable[Task], number: int) -> Iterator[Task]:
    """The first tasks of every template."""
    seen: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        seen[task.world, task.template] += 1
        if seen[task.world, task.template] <= number:
            yield task


if __name__ == "__main__":
    run(main)
