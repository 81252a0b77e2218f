"""`python -m flows.sweep NAME SET …`: sets of Hydra overrides as DVC experiments, and one table of them.

    python -m flows.sweep rates train.rate=1e-4 'train.rate=3e-4 seed=2'
    python -m flows.sweep --cluster tcp://host:8786 rates 'seed=1' 'seed=2'

Every experiment works in a clone of its own (`flows.worktree`). Its name is made of its overrides, so
a sweep that was stopped runs only what is missing, and goes on with what was running.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import wait
from prefect.states import Completed, Failed

from envace.errors import EnvaceError
from envace.files import digest
from flows.artifacts import publish_table
from flows.cluster import on_cluster
from flows.commands import dvc
from flows.pipeline import metrics
from flows.reproduce import logged, reason
from flows.terminal import run
from flows.worktree import LOCK, alone, cloned, prepared


@task(cache_policy=NO_CACHE, persist_result=False)
def experiment(name: str, overrides: Sequence[str], checkout: Path, home: Path, remote: bool) -> State:
    """Run one experiment in a clone of its own, which goes when the checkout has the result.

    Args:
        name: Of the experiment.
        overrides: Hydra overrides.
        checkout: Where it belongs.
        home: The flow's folder in it.
        remote: This is a worker of a cluster; where it is not, the task has to run inline, as every
            task that starts a process.
    """
    try:
        tree = cloned(checkout, home / name)
        if name not in experiments(tree):
            chosen = [word for override in overrides for word in ("--set-param", override)]
            command = [sys.executable, "-m", "dvc", "--wait-for-lock", "exp", "run", "--name", name, *chosen]
            code, lines = logged(name, command, tree, home / LOCK if remote else None)
            if code:
                return Failed(message=f"experiment {name}: {reason(lines)}")
        dvc("exp", "push", "--no-cache", "origin", name, cwd=tree)
    except EnvaceError as error:
        return Failed(message=f"experiment {name}: {error}")
    rmtree(tree)
    return Completed()


@flow(name="sweep")
def sweep(name: str, sets: list[list[str]], shown: str = "metrics/evaluate/", cluster: str = "") -> State:
    """Run an experiment for each set of overrides that has none yet at the checkout's last commit.

    Args:
        name: Of the sweep, in front of the names of its experiments.
        sets: Overrides of one experiment each, as in `[["train.rate=1e-4"], ["model=big", "seed=2"]]`.
        shown: Metrics of files whose path begins so are columns of the table.
        cluster: Address of a Dask scheduler (`tcp://host:8786`) whose workers see this checkout under
            the same path; empty to run here.

    Returns:
        Completed; Failed when an experiment failed, after the others have run.
    """
    checkout = Path.cwd()
    try:
        with alone(checkout) as home:
            # DVC's lock of the checkout may be held for hours by who works there, that of the worktree not.
            tree = prepared(checkout, home)
            known = experiments(tree)
            labels = {experiment_name(name, overrides): overrides for overrides in sets}
            missing = {label: overrides for label, overrides in labels.items() if label not in known}
            every = on_cluster(_run_all, cluster) if cluster else _run_all
            states = every(missing, checkout, home, bool(cluster))
            with contextlib.chdir(tree):
                rows = table(name, sets, shown)
    except EnvaceError as error:
        return Failed(message=str(error))
    publish_table("sweep", rows, f"Sweep {name}")
    if failures := [str(state.message) for state in states if not state.is_completed()]:
        return Failed(message=f"{len(failures)} of {len(sets)} failed, first: {failures[0]}")
    return Completed(message=f"{len(sets)} experiments; dvc exp show has them all")


@flow(name="experiments")
def _run_all(chosen: dict[str, list[str]], checkout: Path, home: Path, remote: bool) -> list[State]:
    """Run experiments: one after the other here, or side by side where the workers of a cluster are."""
    calls = [
        (experiment.with_options(name=name, task_run_name=name), (name, overrides, checkout, home, remote))
        for name, overrides in chosen.items()
    ]
    if not remote:
        return [each(*given, return_state=True) for each, given in calls]
    futures = [each.submit(*given) for each, given in calls]
    wait(futures)
    return [future.state for future in futures]


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


def main() -> int:
    """Read the command line, run the sweep."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.sweep", description="Sets of Hydra overrides as DVC experiments."
    )
    parser.add_argument("name", help="of the sweep")
    parser.add_argument(
        "sets", nargs="+", help="Hydra overrides of one experiment, in one word", metavar="SET"
    )
    parser.add_argument("--cluster", default="", help="address of a Dask scheduler", metavar="ADDRESS")
    given = parser.parse_args()
    sets = [words.split() for words in given.sets]
    return run(sweep, name=given.name, sets=sets, cluster=given.cluster)


if __name__ == "__main__":
    sys.exit(main())
