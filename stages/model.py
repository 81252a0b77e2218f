"""model: the base policy, from scratch or pretrained, with its tokenizer → models/base."""

import os
from pathlib import Path

from envace.files import atomic_folder, write_json
from envace.params import Params
from stages.base import METRICS, run, use_torch


def main(params: Params) -> None:
    """Write the base policy."""
    from envace.models.sources import SOURCES

    use_torch(params)
    with atomic_folder(Path("models/base")) as folder:
        facts = SOURCES[params.model.source](params.model, params.seed, folder)
    write_json(METRICS / "model.json", facts)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "0")  # the one stage that may download
    run(main)
