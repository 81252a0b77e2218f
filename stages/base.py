"""What all stages share: parameters, threads, one-line errors."""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from envace.errors import EnvaceError, room
from envace.files import write_json
from envace.garbage import collect_seldom
from envace.heap import keep_freed
from envace.params import Params, load_params

METRICS = Path("metrics")
TIMES = Path(".scratch/times")
"""Wall times: not metrics, because equal runs must have equal metrics."""


def run(main: Callable[[Params], None]) -> None:
    """Run a stage: load `params.yaml`, fix the thread count, report errors in one line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for noisy in ("httpx", "transformers", "great_expectations", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    collect_seldom()
    try:
        with room():
            main(load_params())
    except EnvaceError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def argument(position: int, choices: Collection[str]) -> str:
    """A command-line argument of the stage, which must be one of `choices`."""
    given = sys.argv[position] if len(sys.argv) > position else "nothing"
    if given not in choices:
        raise EnvaceError(f"{given} is no argument for this stage", f"one of {', '.join(choices)}")
    return given


@contextlib.contextmanager
def timed(stage: str, noted: bool = True) -> Iterator[None]:
    """Note how long the block took (a resumed run counts its last part only), on one of several ranks."""
    begun = time.monotonic()
    yield
    if noted:
        write_json(TIMES / f"{stage}.json", {"seconds": time.monotonic() - begun})


def use_torch(params: Params) -> None:
    """Fix the number of torch threads, which is part of a result's reproducibility; keep freed memory."""
    import torch

    torch.set_num_threads(params.threads)
    keep_freed()
