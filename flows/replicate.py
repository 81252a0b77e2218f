"""`python -m flows.replicate`: the DVC graph, stage by stage, as one Prefect flow."""

import sys
from pathlib import Path

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from envace.errors import EnvaceError
from flows.artifacts import publish_project, publish_table
from flows.mend import mend
from flows.reproduce import run_stages
from flows.terminal import run


@flow(name="replicate")
def replicate() -> State:
    """Reproduce every stage in order; the first failure ends the run."""
    try:
        if mend(Path()):
            get_run_logger().warning("Files that DVC was writing when it was killed are put right")
        rows, failed = run_stages()
    except EnvaceError as error:
        return Failed(message=str(error))
    publish_table("stages", rows, "Stages of this run")
    publish_project()
    if failed:
        return Failed(message=failed.message)
    return Completed(message="every stage is up to date")


if __name__ == "__main__":
    sys.exit(run(replicate))
