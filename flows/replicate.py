"""`python -m flows.replicate`: the DVC graph, stage by stage, as one Prefect flow."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from envace.errors import EnvaceError
from flows.artifacts import publish_project, publish_table
from flows.mend import mend
from flows.reproduce import Work, dvc_repro, run_stages
from flows.terminal import run


@dataclass(frozen=True)
class Begun:
    """DVC at work on all stages."""

    work: Work
    """To be followed."""
    mended: bool
    """Whether something half written had to be put right before."""


AHEAD: list[Begun] = []
"""What was begun before the flow, in the process that runs it; a flow that tries again begins anew."""


@flow(name="replicate")
def replicate() -> State:
    """Reproduce every stage in order; the first failure ends the run."""
    try:
        with nullcontext(AHEAD.pop()) if AHEAD else begin() as begun:
            if begun.mended:
                get_run_logger().warning("Files that DVC was writing when it was killed are put right")
            rows, failed = run_stages(begun.work)
    except EnvaceError as error:
        return Failed(message=str(error))
    publish_table("stages", rows, "Stages of this run")
    publish_project()
    if failed:
        return Failed(message=failed.message)
    return Completed(message="every stage is up to date")


@contextmanager
def begin() -> Iterator[Begun]:
    """Put right what a kill left, then let DVC begin; it ends with the block.

    Raises:
        EnvaceError: Another DVC is at work here, this is no DVC checkout, or its dvc.yaml is invalid.
    """
    mended = mend(Path())
    with dvc_repro() as work:
        yield Begun(work, mended)


@contextmanager
def begin_ahead() -> Iterator[None]:
    """Let DVC begin before the flow does."""
    with begin() as begun:
        AHEAD.append(begun)
        yield


if __name__ == "__main__":
    sys.exit(run(replicate, begin_ahead))
