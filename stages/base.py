"""What all stages share: parameters, threads, one-line errors."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from envace.errors import EnvaceError
from envace.params import Params, load_params

METRICS = Path("metrics")


def run(main: Callable[[Params], None]) -> None:
    """Run a stage: load `params.yaml`, fix the thread count, report errors in one line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for noisy in ("httpx", "transformers", "great_expectations", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        main(load_params())
    except EnvaceError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def use_torch(params: Params) -> None:
    """Fix the number of torch threads, which is part of a result's reproducibility."""
    import torch

    torch.set_num_threads(params.threads)
