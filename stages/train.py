"""train: EnvACE, role-wise GRPO on rehearsed roll-outs → models/trained."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from envace.files import atomic_folder, read_json, write_json
from envace.params import Params
from envace.quality import QualityResult, gate
from stages.arms import train_policy
from stages.base import METRICS, TIMES, run, timed, use_torch

LIVE = Path("plots/train")


def main(params: Params) -> None:
    """Train the warmed-up policy; refuses one that fails the quality gate."""
    from dvclive.live import Live

    from envace.models.build import save
    from envace.report.curves import write_curve
    from envace.rl.measures import alarms, summary

    quality = QualityResult.model_validate(read_json("quality/warmup.json"))
    if params.gate.enforced:
        gate(quality)
    use_torch(params)
    source = Path("models/warmup")
    seconds: Counter[str] = Counter()
    with Live(str(LIVE), dvcyaml=None, save_dvc_exp=False) as live, timed("train"):

        def report(row: Mapping[str, float]) -> None:
            for name, value in row.items():
                if name != "step":  # which is the live log's own column
                    live.log_metric(name, value)
            live.next_step()

        model, log, checkpoint = train_policy(params, source, "train", report, seconds)
    write_json(TIMES / "train_phases.json", dict(seconds))
    with atomic_folder(Path("models/trained")) as folder:
        save(model, source, folder)
    write_curve("plots/train.csv", log)
    alarm = alarms(log, params.train.collusion_tolerance)
    write_json(METRICS / "train.json", summary(log) | {"collusion_alarms": len(alarm), "alarms": alarm})
    checkpoint.discard()


if __name__ == "__main__":
    run(main)
