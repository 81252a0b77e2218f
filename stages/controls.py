"""controls: what else could have been done from the same warm-up, with the same seeds → controls/.

    frozen      a frozen copy of the warmed-up policy answers; only acting is trained
    no_env      the policy answers itself, its environment role is not trained
    warmup_more supervised warm-up goes on, for as many seconds as `train` took

`make controls` runs them after `make repro`; an arm that has its result is not run again.
"""

import time
from pathlib import Path
from typing import Any

from envace.benchmarks.base import BenchmarkResult
from envace.errors import EnvaceError
from envace.files import read_json, write_json
from envace.params import Params
from envace.report.compare import paired
from envace.trajectory import Task, Trajectory, iter_records
from envace.worlds import WORLDS
from stages.base import TIMES, run, use_torch

OUT = Path("controls")
WARMUP = Path("models/warmup")
TASKS = Path("data/synthetic/held_out.jsonl")
ARMS = ("frozen", "no_env", "warmup_more")


def main(params: Params) -> None:
    """Run every arm that has no result yet, then compare all with the warm-up."""
    use_torch(params)
    for arm in ARMS:
        if not (OUT / f"{arm}.json").is_file():
            write_json(OUT / f"{arm}.json", measure(params, trained(params, arm), arm))
    results = {arm: read_json(OUT / f"{arm}.json") for arm in ARMS}
    for policy in ("warmup", "trained"):
        results[policy] = {
            strategy: read_json(f"evaluation/worlds/{policy}_{strategy}.json")
            for strategy in ("none", "parallel")
        } | {"agreement": read_json(f"quality/{policy}.json")["agreement"]["overall"]["share"]}
    rows = {arm: row(results[arm], results["warmup"]) for arm in ("warmup", "trained", *ARMS)}
    write_json(OUT / "summary.json", rows)
    print(
        f"{'arm':12} {'success':>8} {'change (95 %)':>24} {'agreement':>10} {'courier':>8} {'rehearsed':>10}"
    )
    for arm, r in rows.items():
        change = f"{r['change']:+.3f} ({r['ci_low']:+.3f} to {r['ci_high']:+.3f})"
        print(
            f"{arm:12} {r['success']:8.3f} {change:>24} {r['agreement']:10.3f} "
            f"{r['courier_none']:8.3f} {r['courier_parallel']:10.3f}"
        )


def trained(params: Params, arm: str) -> Any:
    """The model of one arm."""
    from envace.chat import CompactTemplate
    from envace.engines.hf import HFEngine
    from envace.models.build import load
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.train import train

    model, template = load(WARMUP), CompactTemplate(WARMUP)
    if arm == "warmup_more":
        return _warmed_up_further(params, model, template)
    settings = params.train.model_copy(update={"environment": "none"})
    checkpoint = Checkpoint(f"control-{arm}", settings.model_dump(), params.seed, params.threads, WARMUP)
    simulator = HFEngine(load(WARMUP), template.vocabulary) if arm == "frozen" else None
    engine = HFEngine(model, template.vocabulary)
    train(model, engine, template, [], settings, params.seed, checkpoint, simulator)
    return model


def _warmed_up_further(params: Params, model: Any, template: Any) -> Any:
    """Go on with the warm-up's own batches and a fresh learning-rate schedule."""
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.warmup import warm_up

    seconds = read_json(TIMES / "train.json")["seconds"]
    pace = read_json(TIMES / "warmup.json")["seconds"] / params.warmup.steps
    settings = params.warmup.model_copy(update={"steps": max(1, round(seconds / pace))})
    records = iter_records("data/split/train.jsonl", Trajectory)
    streams = [template.render(record.messages, record.tools) for record in records]
    checkpoint = Checkpoint("control-warmup_more", settings.model_dump(), params.seed, params.threads, WARMUP)
    begun = time.monotonic()
    warm_up(model, streams, settings, params.seed + 1, checkpoint)
    print(
        f"warmup_more: {settings.steps} steps in {time.monotonic() - begun:.0f} s; train took {seconds:.0f} s"
    )
    return model


def measure(params: Params, model: Any, arm: str) -> dict[str, Any]:
    """Real execution with both strategies, and agreement on held-out core calls."""
    from envace.benchmarks.worlds import run_worlds
    from envace.chat import CompactTemplate
    from envace.engines.hf import HFEngine
    from envace.rollout.predict import held_out_calls, predict

    template = CompactTemplate(WARMUP)
    engine = HFEngine(model, template.vocabulary)
    tasks = list(iter_records(TASKS, Task))
    result: dict[str, Any] = {}
    for strategy in ("none", "parallel"):
        found = run_worlds(
            engine, template, tasks, strategy, params.evaluate.branches, params.seed, arm, TASKS
        )
        result[strategy] = found.model_dump(mode="json")
    calls = [call for call in held_out_calls(tasks, params.seed) if call.task.world in params.gate.worlds]
    core = [
        prediction.text == call.actual
        for call, prediction in zip(calls, predict(engine, template, calls), strict=True)
        if not call.actual.startswith('{"error"')
    ]
    return result | {"agreement": sum(core) / len(core)}


def row(result: dict[str, Any], baseline: dict[str, Any]) -> dict[str, float]:
    """One line of the table: success on training templates, its paired change, rehearsal."""
    mine, theirs = (_by_task(r["none"]) for r in (result, baseline))
    change = paired(theirs, mine)
    if change is None:
        raise EnvaceError("controls: no tasks in common with the warm-up", "run `make repro` first")
    courier = {
        strategy: BenchmarkResult.model_validate(result[strategy]).groups["courier.ship"].mean
        for strategy in ("none", "parallel")
    }
    return {
        "success": sum(mine.values()) / len(mine),
        "change": change.difference,
        "ci_low": change.ci_low,
        "ci_high": change.ci_high,
        "agreement": result["agreement"],
        "courier_none": courier["none"],
        "courier_parallel": courier["parallel"],
    }


def _by_task(result: dict[str, Any]) -> dict[str, int]:
    """Success by task id, on the training templates of the chained worlds."""
    chosen = {}
    for task in BenchmarkResult.model_validate(result).tasks:
        world, template = task.category.split(".")
        kind = WORLDS[world]
        if not kind.commit_once and kind.templates[template] != "held_out":
            chosen[task.id] = task.success or 0
    return chosen


if __name__ == "__main__":
    run(main)
