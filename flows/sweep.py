"""`python -m flows.sweep NAME SET …`: sets of Hydra overrides as DVC experiments, and one table of them.

    python -m flows.sweep rates train.rate=1e-4 'train.rate=3e-4 seed=2'

Works in the worktree of `flows.worktree`. An experiment's name is made of its overrides, so a sweep
that was stopped runs only what is missing.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from envace.errors import EnvaceError
from envace.files import digest
from flows.artifacts import publish_table
from flows.commands import dvc
from flows.pipeline import metrics
from flows.reproduce import logged, reason
from flows.terminal import run
from flows.worktree import alone, prepared


@task(cache_policy=NO_CACHE, persist_result=False)
def experiment(name: str, overrides: Sequence[str]) -> State:
    """Run one experiment in the current folder. Inline, as every task that starts DVC."""
    chosen = [word for override in overrides for word in ("--set-param", override)]
    code, lines = logged(
        [sys.executable, "-m", "dvc", "--wait-for-lock", "exp", "run", "--name", name, *chosen]
    )
    if code:
        return Failed(message=f"experiment {name}: {reason(lines)}")
    return Completed()


@flow(name="sweep")
def sweep(name: str, sets: list[list[str]], shown: str = "metrics/evaluate/") -> State:
    """Run an experiment for each set of overrides that has none yet at the checkout's last commit.

    Args:
        name: Of the sweep, in front of the names of its experiments.
        sets: Overrides of one experiment each, as in `[["train.rate=1e-4"], ["model=big", "seed=2"]]`.
        shown: Metrics of files whose path begins so are columns of the table.

    Returns:
        Completed; Failed when an experiment failed, after the others have run.
    """
    checkout = Path.cwd()
    try:
        with alone(checkout) as home:
            failures = []
            for overrides in sets:
                label = experiment_name(name, overrides)
                tree = prepared(checkout, home)
                if label in experiments(tree):
                    continue
                with contextlib.chdir(tree):
                    each = experiment.with_options(name=label, task_run_name=label)
                    state = each(label, overrides, return_state=True)
                if not state.is_completed():
                    failures.append(str(state.message))
            with contextlib.chdir(prepared(checkout, home)):
                rows = table(name, sets, shown)
    except EnvaceError as error:
        return Failed(message=str(error))
    publish_table("sweep", rows, f"Sweep {name}")
    if failures:
        return Failed(message=f"{len(failures)} of {len(sets)} failed, first: {failures[0]}")
    return Completed(message=f"{len(sets)} experiments; dvc exp show has them all")


def experiment_name(sweep_name: str, overrides: Sequence[str]) -> str:
    """A name that equal overrides share, in whatever order; DVC allows letters, digits and hyphens."""
    return f"{sweep_name}-{digest(sorted(overrides))[:8]}"


def experiments(tree: Path) -> set[str]:
    """Names of those that ran at the last commit."""
    return set(dvc("exp", "list", "--names-only", cwd=tree).split())


def table(name: str, sets: Sequence[Sequence[str]], shown: str) -> list[dict[str, Any]]:
    """A row for each set: its experiment, its overrides, its metrics; an experiment that failed has none."""
    rows, known = [], experiments(Path())
    for overrides in sets:
        label = experiment_name(name, overrides)
        found = {
            f"{Path(row['file']).stem}.{row['metric']}": row["value"]
            for row in (metrics(label) if label in known else ())
            if row["file"].startswith(shown)
        }
        rows.append({"experiment": label, "overrides": " ".join(overrides), **found})
    return rows


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("error: no sets of overrides (python -m flows.sweep NAME 'seed=1' 'seed=2')")
    sys.exit(run(sweep, name=sys.argv[1], sets=[words.split() for words in sys.argv[2:]]))
