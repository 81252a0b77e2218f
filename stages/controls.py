"""controls: what else could have been done from the same warm-up, with the same seeds → controls/.

    frozen      a frozen copy of the warmed-up policy answers; only acting is trained
    no_env      the policy answers itself, its environment role is not trained
    warmup_more supervised warm-up goes on, for as many seconds as `train` took

`make controls` runs them after `make repro`; an arm that has its result is not run again.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.files import read_json, write_json
from envace.params import Params
from envace.trajectory import Trajectory, iter_records
from stages.arms import STRATEGIES, alternative, measure, row, show, streams_of, train_policy
from stages.base import TIMES, run, use_torch

if TYPE_CHECKING:
    from envace.rl.settings import EnvironmentUpdate

OUT = Path("controls")
WARMUP = Path("models/warmup")
ARMS: "dict[str, tuple[str, EnvironmentUpdate] | None]" = {
    "frozen": ("simulator", "none"),
    "warmup_more": None,
    "no_env": ("rehearsal", "none"),
}


def main(params: Params) -> None:
    """Run every arm that has no result yet, then compare all with the warm-up."""
    use_torch(params)
    for name in ARMS:
        if not (OUT / f"{name}.json").is_file():
            write_json(OUT / f"{name}.json", measure(params, trained(params, name), WARMUP, name))
    results = {name: read_json(OUT / f"{name}.json") for name in ARMS}
    for policy in ("warmup", "trained"):
        shares = read_json(f"quality/{policy}.json")["agreement"]
        results[policy] = {
            strategy: read_json(f"evaluation/worlds/{policy}_{strategy}.json") for strategy in STRATEGIES
        } | {
            "agreement": shares["overall"]["share"],
            "agreement_committing": shares["worlds"]["courier"]["share"],
        }
    rows = {name: row(results[name], results["warmup"]) for name in ("warmup", "trained", *ARMS)}
    write_json(OUT / "summary.json", rows)
    show(rows)


def trained(params: Params, name: str) -> Any:
    """The model of one arm."""
    arm = ARMS[name]
    if arm is None:
        return _warmed_up_further(params)
    return train_policy(alternative(params, *arm, observe_steps=0), WARMUP, f"control-{name}")[0]


def _warmed_up_further(params: Params) -> Any:
    """Go on with the warm-up's own batches and a fresh learning-rate schedule."""
    from envace.chat import load_template
    from envace.models.build import load
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.warmup import warm_up

    model, template = load(WARMUP), load_template(WARMUP)
    seconds = read_json(TIMES / "train.json")["seconds"]
    pace = read_json(TIMES / "warmup.json")["seconds"] / params.warmup.steps
    settings = params.warmup.model_copy(update={"steps": max(1, round(seconds / pace))})
    records = iter_records("data/split/train.jsonl", Trajectory)
    streams = streams_of(params, template, records)
    checkpoint = Checkpoint("control-warmup_more", settings.model_dump(), params.seed, params.threads, WARMUP)
    begun = time.monotonic()
    warm_up(model, streams, settings, params.seed + 1, checkpoint)
    print(
        f"warmup_more: {settings.steps} steps in {time.monotonic() - begun:.0f} s; train took {seconds:.0f} s"
    )
    return model


if __name__ == "__main__":
    run(main)
