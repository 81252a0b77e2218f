"""warmup: supervised learning of both roles → models/warmup."""

import sys
from pathlib import Path

from envace.files import atomic_folder, write_json
from envace.launch import relaunch
from envace.params import Params
from envace.trajectory import iter_records
from envace.trajectory.records import Trajectory
from stages.arms import streams_of, trainable
from stages.base import METRICS, run, timed, use_torch


def main(params: Params) -> None:
    """Warm the policy up, resuming an interrupted run."""
    relaunch(params.scale.launch, "stages.warmup", sys.argv[1:])
    from envace.chat import load_template
    from envace.models.build import save
    from envace.report.curves import write_curve
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.distributed import full_state, together
    from envace.rl.warmup import held_out_losses, warm_up

    use_torch(params)
    base, data = Path("models/base"), Path("data/split")
    with together(params.scale.device) as ranks:
        template = load_template(base)
        streams = {
            name: streams_of(params, template, iter_records(data / f"{name}.jsonl", Trajectory))
            for name in ("train", "dev")
        }
        model = trainable(params, base, ranks)
        checkpoint = Checkpoint(
            "warmup",
            params.warmup.model_dump(),
            params.chat.model_dump(),
            params.seed,
            params.threads,
            [ranks.rank, ranks.count],
            base,
            data,
        )
        with timed("warmup", ranks.first):
            curve = warm_up(model, streams["train"], params.warmup, params.seed, checkpoint, ranks)
        losses = held_out_losses(model, streams["dev"], params.warmup.token_budget, ranks)
        state = full_state(model)
        if ranks.first:
            with atomic_folder(Path("models/warmup")) as folder:
                save(model, base, folder, state)
            write_curve("plots/warmup.csv", curve)
            write_json(METRICS / "warmup.json", {"dev": losses, "steps": params.warmup.steps})
        ranks.wait()  # a rank without a resume point could not go on with the others
        checkpoint.discard()


if __name__ == "__main__":
    run(main)
