"""What `train` and the comparisons with it share: training by parameters, and measuring a policy."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.benchmarks.base import BenchmarkResult
from envace.errors import EnvaceError
from envace.params import Params
from envace.report.compare import paired
from envace.trajectory import Task, Trajectory, iter_records
from envace.worlds import WORLDS

if TYPE_CHECKING:
    from envace.chat import Template, TokenStream
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.distributed import Ranks
    from envace.rl.settings import EnvironmentUpdate
    from envace.rl.train import Report

SPLIT = Path("data/split")
TASKS = Path("data/synthetic/held_out.jsonl")
STRATEGIES = ("none", "parallel")
ANCHORED = 0.2
"""Share of the warm-up data kept as anchor."""


def trainable(params: Params, source: Path, ranks: "Ranks") -> Any:
    """The policy of a folder, ready to be trained: with its adapters, and this rank's shard of it."""
    from envace.models.adapt import prepare
    from envace.models.build import load
    from envace.rl.distributed import shard

    model = prepare(load(source, params.scale.device, params.scale.dtype), params.scale, params.seed)
    return shard(model, bfloat16=True) if params.scale.shard and ranks.count > 1 else model


def train_policy(
    params: Params,
    source: Path,
    name: str,
    report: "Report" = lambda row: None,
    seconds: "Counter[str] | None" = None,
    ranks: "Ranks | None" = None,
) -> tuple[Any, list[dict[str, float]], "Checkpoint"]:
    """Train the policy of a folder as `params.train` says.

    Args:
        params: All parameters.
        source: The warmed-up policy; a frozen copy of it is simulator and reference where one is wanted.
        name: Of the resume point.
        report: Follows the run.
        seconds: Gets the seconds of each phase.
        ranks: All processes; None is one.

    Returns:
        Policy (sharded if `params.scale` says so), log, and this rank's resume point, to discard once
        the outputs are in place.
    """
    from envace.chat import load_template, make_layout
    from envace.engines import engine
    from envace.engines.hf import HFEngine
    from envace.models.build import load
    from envace.rewards import make_reward
    from envace.rl.answers import make_answerer
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.distributed import ALONE
    from envace.rl.train import train

    settings, scale, ranks = params.train, params.scale, ranks or ALONE
    model, template = trainable(params, source, ranks), load_template(source)
    frozen = partial(load, source, scale.device, scale.dtype)
    sampler = engine(scale.engine, model, template.vocabulary, **scale.engine_options)
    layout = make_layout(params.chat.layout, params.chat.sections)
    checkpoint = Checkpoint(
        name, settings.model_dump(), params.chat.model_dump(), params.seed, params.threads,
        [ranks.rank, ranks.count], source, SPLIT, params.worlds,
    )  # fmt: skip
    log = train(
        model,
        sampler,
        template,
        logged_streams(params, template) if settings.observe_steps else [],
        settings,
        params.seed,
        checkpoint,
        answerer=make_answerer(
            settings, sampler, template, lambda: HFEngine(frozen(), template.vocabulary), layout
        ),
        reward=make_reward(settings.reward),
        layout=layout,
        reference=frozen() if settings.update.kl > 0 else None,
        report=report,
        seconds=seconds,
        ranks=ranks,
        worlds=params.worlds,
    )
    return model, log, checkpoint


def alternative(params: Params, answers: str, environment: "EnvironmentUpdate", **train: Any) -> Params:
    """The same parameters with somebody else to answer, or another way for the environment role to learn."""
    update = replace(params.train.update, environment=environment)
    changed = params.train.model_copy(update={"answers": answers, "update": update, **train})
    return params.model_copy(update={"train": changed})


def streams_of(
    params: Params, template: "Template", trajectories: Iterable[Trajectory]
) -> "list[TokenStream]":
    """Supervised rows of trajectories in the layout of the parameters."""
    from envace.chat import make_layout, supervised

    layout = make_layout(params.chat.layout, params.chat.sections)
    return [row for t in trajectories for row in supervised(template, t.messages, t.tools, layout)]


def logged_streams(params: Params, template: "Template") -> "list[TokenStream]":
    """A sample of the warm-up data as anchor, without the drills of format-only worlds: they are not true."""
    hidden = params.synthesize.format_only
    # Drawn, not every fifth: synthesis takes templates in turn, and a stride can miss some of them for good.
    rng = random.Random(f"anchor/{params.seed}")
    drawn = (t for t in iter_records(SPLIT / "train.jsonl", Trajectory) if rng.random() < ANCHORED)
    return streams_of(params, template, (t for t in drawn if not (t.source == "drill" and t.world in hidden)))


def measure(params: Params, model: Any, source: Path, name: str, file: Path = TASKS) -> dict[str, Any]:
    """Real execution of a file of tasks with each strategy, and agreement on their core calls."""
    from envace.benchmarks.worlds import run_worlds
    from envace.chat import load_template
    from envace.engines.hf import HFEngine
    from envace.rollout.predict import held_out_calls, predict

    template = load_template(source)
    engine = HFEngine(model, template.vocabulary)
    tasks = list(iter_records(file, Task))
    result: dict[str, Any] = {}
    for strategy in STRATEGIES:
        found = run_worlds(
            engine, template, tasks, strategy, params.evaluate.branches, params.seed, name, file
        )
        result[strategy] = found.model_dump(mode="json")
    calls = list(held_out_calls(tasks, params.seed))
    hits: dict[bool, list[bool]] = {True: [], False: []}
    for call, prediction in zip(calls, predict(engine, template, calls), strict=True):
        if not call.actual.startswith('{"error"'):
            hits[WORLDS[call.task.world].commit_once].append(prediction.text == call.actual)
    return result | {
        "agreement": sum(hits[False]) / len(hits[False]),
        "agreement_committing": sum(hits[True]) / len(hits[True]),
    }


def row(result: dict[str, Any], baseline: dict[str, Any]) -> dict[str, float]:
    """One line of a table: success on training templates, its paired change, rehearsal."""
    mine, theirs = (_by_task(r["none"]) for r in (result, baseline))
    change = paired(theirs, mine)
    if change is None:
        raise EnvaceError("no tasks in common with the warm-up", "run `make repro` first")
    courier = {
        strategy: BenchmarkResult.model_validate(result[strategy]).groups["courier.ship"].mean
        for strategy in STRATEGIES
    }
    return {
        "success": sum(mine.values()) / len(mine),
        "change": change.difference,
        "ci_low": change.ci_low,
        "ci_high": change.ci_high,
        "agreement": result["agreement"],
        "agreement_committing": result["agreement_committing"],
        "courier_none": courier["none"],
        "courier_parallel": courier["parallel"],
    }


def show(rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print the lines of `row` as a table."""
    heads = ("success", "change (95 %)", "agreement", "courier", "rehearsed")
    print("{:16} {:>8} {:>24} {:>10} {:>8} {:>10}".format("", *heads))
    for name, r in rows.items():
        change = f"{r['change']:+.3f} ({r['ci_low']:+.3f} to {r['ci_high']:+.3f})"
        print(
            f"{name:16} {r['success']:8.3f} {change:>24} {r['agreement']:10.4f} "
            f"{r['courier_none']:8.3f} {r['courier_parallel']:10.3f}"
        )


def _by_task(result: dict[str, Any]) -> dict[str, int]:
    """Success by task id, on the training templates of the chained worlds."""
    chosen = {}
    for task in BenchmarkResult.model_validate(result).tasks:
        world, template = task.category.split(".")
        kind = WORLDS[world]
        if not kind.commit_once and kind.templates[template] != "held_out":
            chosen[task.id] = task.success or 0
    return chosen
