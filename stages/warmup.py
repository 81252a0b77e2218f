"""warmup: supervised learning of both roles → models/warmup."""

from pathlib import Path

from envace.files import atomic_folder, write_json
from envace.params import Params
from envace.trajectory import iter_records
from envace.trajectory.records import Trajectory
from stages.arms import streams_of
from stages.base import METRICS, run, timed, use_torch


def main(params: Params) -> None:
    """Warm the policy up, resuming an interrupted run."""
    from envace.chat import load_template
    from envace.models.adapt import prepare
    from envace.models.build import load, save
    from envace.report.curves import write_curve
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.warmup import held_out_losses, warm_up

    use_torch(params)
    base, data = Path("models/base"), Path("data/split")
    template = load_template(base)
    streams = {
        name: streams_of(params, template, iter_records(data / f"{name}.jsonl", Trajectory))
        for name in ("train", "dev")
    }
    model = load(base, params.scale.device, params.scale.dtype)
    prepare(model, params.scale, params.seed)
    checkpoint = Checkpoint(
        "warmup",
        params.warmup.model_dump(),
        params.chat.model_dump(),
        params.seed,
        params.threads,
        base,
        data,
    )
    with timed("warmup"):
        curve = warm_up(model, streams["train"], params.warmup, params.seed, checkpoint)
    losses = held_out_losses(model, streams["dev"], params.warmup.token_budget)
    with atomic_folder(Path("models/warmup")) as folder:
        save(model, base, folder)
    write_curve("plots/warmup.csv", curve)
    write_json(METRICS / "warmup.json", {"dev": losses, "steps": params.warmup.steps})
    checkpoint.discard()


if __name__ == "__main__":
    run(main)
