"""train: EnvACE, role-wise GRPO on rehearsed roll-outs → models/trained."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from envace.files import atomic_folder, read_json, write_json
from envace.params import Params
from envace.quality import QualityResult, gate
from envace.trajectory import Trajectory, iter_records
from stages.base import METRICS, run, timed, use_torch

if TYPE_CHECKING:
    from envace.chat import CompactTemplate, TokenStream

ONE_IN = 5
"""Share of the warm-up data kept as anchor: one trajectory in so many."""


def main(params: Params) -> None:
    """Train the warmed-up policy; refuses one that fails the quality gate."""
    from envace.chat import CompactTemplate
    from envace.engines.hf import HFEngine
    from envace.models.build import load, save
    from envace.report.curves import write_curve
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.train import alarms, summary, train

    quality = QualityResult.model_validate(read_json("quality/warmup.json"))
    if params.gate.enforced:
        gate(quality)
    use_torch(params)
    source, split = Path("models/warmup"), Path("data/split")
    template = CompactTemplate(source)
    model = load(source)
    engine = HFEngine(model, template.vocabulary)
    checkpoint = Checkpoint("train", params.train.model_dump(), params.seed, params.threads, source, split)
    logged = logged_responses(params, template)
    with timed("train"):
        log = train(model, engine, template, logged, params.train, params.seed, checkpoint)
    with atomic_folder(Path("models/trained")) as folder:
        save(model, source, folder)
    write_curve("plots/train.csv", log)
    alarm = alarms(log, params.train.collusion_tolerance)
    write_json(METRICS / "train.json", summary(log) | {"collusion_alarms": len(alarm), "alarms": alarm})
    checkpoint.discard()


def logged_responses(params: Params, template: "CompactTemplate") -> "list[TokenStream]":
    """A sample of the warm-up data as anchor, without the drills of format-only worlds: they are not true."""
    hidden = params.synthesize.format_only
    trajectories = iter_records("data/split/train.jsonl", Trajectory)
    true = (t for t in trajectories if not (t.source == "drill" and t.world in hidden))
    return [template.render(t.messages, t.tools) for t in islice(true, 0, None, ONE_IN)]


if __name__ == "__main__":
    run(main)
