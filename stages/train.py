"""train: EnvACE, role-wise GRPO on rehearsed roll-outs → models/trained."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from envace.files import atomic_folder, read_json, write_json
from envace.launch import relaunch
from envace.params import Params
from envace.quality import QualityResult, gate
from stages.arms import train_policy
from stages.base import METRICS, TIMES, run, timed, use_torch

if TYPE_CHECKING:
    from envace.rl.train import Report

LIVE = Path("plots/train")


def main(params: Params) -> None:
    """Train the warmed-up policy; refuses one that fails the quality gate."""
    quality = QualityResult.model_validate(read_json("quality/warmup.json"))
    if params.gate.enforced:
        gate(quality)
    relaunch(params.scale.launch, "stages.train", sys.argv[1:])
    from envace.models.build import save
    from envace.report.curves import write_curve
    from envace.rl.distributed import full_state, together
    from envace.rl.measures import alarms, summary

    use_torch(params)
    source = Path("models/warmup")
    seconds: Counter[str] = Counter()
    with together(params.scale.device) as ranks:
        with live_log(ranks.first) as report, timed("train", ranks.first):
            model, log, checkpoint = train_policy(params, source, "train", report, seconds, ranks)
        state = full_state(model)
        if ranks.first:
            write_json(TIMES / "train_phases.json", dict(seconds))
            with atomic_folder(Path("models/trained")) as folder:
                save(model, source, folder, state)
            write_curve("plots/train.csv", log)
            alarm = alarms(log, params.train.collusion_tolerance)
            found = {"collusion_alarms": len(alarm), "alarms": alarm}
            write_json(METRICS / "train.json", summary(log) | found)
        ranks.wait()  # a rank without a resume point could not go on with the others
        checkpoint.discard()


@contextmanager
def live_log(kept: bool) -> "Iterator[Report]":
    """A reporter of log rows to DVC's live plots, or to nobody."""
    if not kept:
        yield lambda row: None
        return
    from dvclive.live import Live

    with Live(str(LIVE), dvcyaml=None, save_dvc_exp=False) as live:

        def report(row: Mapping[str, float]) -> None:
            for name, value in row.items():
                if name != "step":  # which is the live log's own column
                    live.log_metric(name, value)
            live.next_step()

        yield report


if __name__ == "__main__":
    run(main)
