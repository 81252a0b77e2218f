"""compare: the method against its alternatives, over seeds → compare/.

    python -m stages.compare              every cell that has no result yet, then the table
    python -m stages.compare ARM SEED     one cell

Each seed has a warm-up of its own; all arms of a seed start from it, see the same tasks, and take
the same number of steps with the same number of supervised tokens: arms whose environment role
does not observe get logged trajectories in place of revealed responses. `warmup_more` gets as
many trained tokens as `rehearsal_observe`. A killed cell resumes.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.errors import EnvaceError
from envace.files import atomic_folder, atomic_text, read_json, write_json
from envace.params import Params
from envace.progress import track
from envace.trajectory import Trajectory, iter_records
from stages.arms import alternative, measure, row, streams_of, train_policy
from stages.base import run, use_torch

if TYPE_CHECKING:
    from envace.rl.settings import EnvironmentUpdate

OUT = Path("compare")
SEEDS = (1, 2, 3)
STEPS = 40
THREADS = 1
"""Torch threads of a cell; cells run side by side on the cores, which does more than threads do."""
WARMUP = "warmup"
MORE = "warmup_more"
ARMS: "dict[str, tuple[str, EnvironmentUpdate]]" = {
    "rehearsal_observe": ("rehearsal", "observe"),
    "rehearsal_grpo": ("rehearsal", "grpo"),
    "rehearsal_both": ("rehearsal", "both"),
    "rehearsal_none": ("rehearsal", "none"),
    "simulator_none": ("simulator", "none"),
    "real_observe": ("real", "observe"),
}
COLUMNS = {
    "success": "success",
    "change": "change",
    "agreement": "env, chained",
    "agreement_committing": "env, courier",
    "courier_none": "courier, direct",
    "courier_parallel": "courier, rehearsed",
    "trained_tokens": "trained tokens",
    "real_calls_per_rollout": "real calls",
}


def main(params: Params) -> None:
    """Run one cell, or all that are missing and then the table."""
    if len(sys.argv) > 2:
        name, seed = sys.argv[1], int(sys.argv[2])
        if name not in (WARMUP, MORE, *ARMS) or seed not in SEEDS:
            raise EnvaceError(f"no cell {name} {seed}", f"arms: {', '.join([WARMUP, *ARMS, MORE])}")
        cell(params.model_copy(update={"threads": THREADS}), name, seed)
        return
    for names in ((WARMUP,), tuple(ARMS), (MORE,)):
        missing = [(n, seed) for seed in SEEDS for n in names if not result_file(n, seed).is_file()]
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // THREADS)) as pool:
            for _ in zip(track(missing, f"compare {names[0]}"), pool.map(_subprocess, missing), strict=True):
                pass
    table(params)


def _subprocess(which: tuple[str, int]) -> None:
    name, seed = which
    log = OUT / "logs" / f"{name}_{seed}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as handle:
        command = [sys.executable, "-m", "stages.compare", name, str(seed)]
        environment = os.environ | {"OMP_NUM_THREADS": str(THREADS)}
        code = subprocess.run(command, env=environment, stdout=handle, stderr=handle, check=False).returncode
    if code:
        raise EnvaceError(f"compare: cell {name} {seed} failed with {code}", f"see {log}")


def result_file(name: str, seed: int) -> Path:
    """Where a cell's result is."""
    return OUT / f"{name}_{seed}.json"


def cell(params: Params, name: str, seed: int) -> None:
    """Train and measure one arm with one seed."""
    use_torch(params)
    source = OUT / f"policy_{seed}"
    extra: dict[str, Any] = {}
    if name in (WARMUP, MORE):
        model, checkpoint, extra = _supervised(params, name, seed, source)
    else:
        own = alternative(params.model_copy(update={"seed": seed}), *ARMS[name], steps=STEPS)
        model, log, checkpoint = train_policy(own, source, f"compare-{name}")
        extra["trained_tokens"] = sum(step["trained_tokens"] for step in log)
        extra["real_calls_per_rollout"] = sum(step["real_calls_per_rollout"] for step in log) / len(log)
        extra["log"] = log
    write_json(result_file(name, seed), measure(params, model, source, name) | extra)
    checkpoint.discard()


def _supervised(params: Params, name: str, seed: int, source: Path) -> tuple[Any, Any, dict[str, Any]]:
    """The warm-up of a seed, or its continuation by as many tokens as the method trained on."""
    from envace.chat import TokenRole, load_template
    from envace.models.build import load, save
    from envace.rl.checkpoint import Checkpoint
    from envace.rl.warmup import schedule, warm_up

    base = Path("models/base") if name == WARMUP else source
    model, template = load(base), load_template(base)
    records = iter_records("data/split/train.jsonl", Trajectory)
    streams = streams_of(params, template, records)
    settings, tokens = params.warmup, 0.0
    if name == MORE:
        seed += 1000
        budget = read_json(result_file("rehearsal_observe", seed - 1000))["trained_tokens"]
        steps = 0
        for batch in schedule([len(stream) for stream in streams], settings, seed):
            if tokens >= budget:
                break
            steps += 1
            tokens += sum(len(s) - s.roles.count(int(TokenRole.CONTEXT)) for s in (streams[i] for i in batch))
        settings = settings.model_copy(update={"steps": steps})
    checkpoint = Checkpoint(f"compare-{name}", settings.model_dump(), seed, params.threads, base)
    warm_up(model, streams, settings, seed, checkpoint)
    if name == WARMUP:
        with atomic_folder(source) as folder:
            save(model, base, folder)
    return model, checkpoint, {"trained_tokens": tokens}


def table(params: Params) -> None:
    """Means over seeds with standard errors, as JSON and as a Markdown table."""
    rows: dict[str, dict[str, tuple[float, float]]] = {}
    for name in (WARMUP, *ARMS, MORE):
        seeds = []
        for seed in SEEDS:
            result = read_json(result_file(name, seed))
            values = row(result, read_json(result_file(WARMUP, seed)))
            seeds.append(values | {k: float(result.get(k, 0.0)) for k in list(COLUMNS)[-2:]})
        rows[name] = {key: _mean_and_error([values[key] for values in seeds]) for key in COLUMNS}
    write_json(OUT / "summary.json", {"seeds": SEEDS, "steps": STEPS, "arms": rows})
    lines = ["| arm | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, columns in rows.items():
        cells = [
            f"{mean:,.0f}" if key == "trained_tokens" else f"{mean:.3f} ± {error:.3f}"
            for key, (mean, error) in columns.items()
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    with atomic_text(OUT / "table.md") as handle:
        handle.write("\n".join(lines) + "\n")
    print("\n".join(lines))


def _mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean over seeds and its standard error."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, (variance / len(values)) ** 0.5


if __name__ == "__main__":
    run(main)
