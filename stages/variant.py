"""variant: another way to train, measured on the dev tasks, which no report uses → variants/.

    python -m stages.variant NAME OVERRIDE …     e.g. python -m stages.variant wider train.observe_rows=96
    python -m stages.variant                     the table of all variants

A variant starts from models/warmup. Recipes are chosen here, so that the held-out tasks stay unseen
until the report.
"""

import sys
from pathlib import Path

import yaml

from envace.compose import compose
from envace.files import read_json, write_json
from envace.params import Params
from stages.arms import measure, row, show, train_policy
from stages.base import run, use_torch

OUT = Path("variants")
DEV = Path("data/synthetic/dev_tasks.jsonl")
WARMUP = Path("models/warmup")
BASELINE = OUT / "warmup.json"


def main(params: Params) -> None:
    """Train and measure one variant if one is named, then show all."""
    if len(sys.argv) > 1:
        name, overrides = sys.argv[1], sys.argv[2:]
        if not BASELINE.is_file():
            from envace.models.build import load

            use_torch(params)
            write_json(BASELINE, measure(params, load(WARMUP), WARMUP, "warmup", DEV))
        if name != BASELINE.stem:
            given = [f"profile={params.profile}", *overrides]
            _train(Params.model_validate(yaml.safe_load(compose(given))), name, overrides)
    found = {file.stem: read_json(file) for file in sorted(OUT.glob("*.json"))}
    show({name: row(result, found[BASELINE.stem]) for name, result in found.items()})


def _train(params: Params, name: str, overrides: list[str]) -> None:
    use_torch(params)
    model, _, checkpoint = train_policy(params, WARMUP, f"variant-{name}")
    write_json(OUT / f"{name}.json", {"overrides": overrides} | measure(params, model, WARMUP, name, DEV))
    checkpoint.discard()


if __name__ == "__main__":
    run(main)
