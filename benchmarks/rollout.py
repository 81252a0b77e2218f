"""Roll-outs: what a kept cache saves at a change of role, and vLLM on a CPU beside `transformers.generate`.

    python benchmarks/rollout.py switch [MODEL_FOLDER]   # a policy, by default models/warmup
    python benchmarks/rollout.py lockstep                # SmolLM2-135M; needs scripts/vllm_env.sh

Runs alternate, so that a busy machine slows both alike; a figure is the median of their ratios.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import vllm_cpu

from envace.engines import Sampling, engine
from envace.errors import EnvaceError
from envace.files import read_json, write_json
from envace.models.build import load

HERE = Path(__file__).parent
ROUNDS, ROWS, HISTORY, CALL = 5, 8, 2000, 16
"""Alternations, roll-outs at once, tokens of a roll-out's history, tokens of the call that ends it."""
KEPT = ROWS * (HISTORY + CALL)


def main() -> None:
    """Measure one figure or both, print a RESULT line each, write JSON."""
    wanted = sys.argv[1:2] or ["switch", "lockstep"]
    try:
        if "switch" in wanted:
            report("switch_kept_cache_vs_recompute", switch(Path((sys.argv[2:] or ["models/warmup"])[0])))
        if "lockstep" in wanted:
            report("vllm_cpu_vs_hf_lockstep", lockstep())
    except EnvaceError as error:
        sys.exit(f"not measured: {error}")


def report(name: str, figures: dict[str, float]) -> None:
    """Print and keep one result."""
    print(
        f"RESULT name={name} " + " ".join(f"{key}={value:.3g}" for key, value in figures.items()), flush=True
    )
    write_json(HERE / f"{name}.json", {"name": name} | figures)


def switch(folder: Path) -> dict[str, float]:
    """Seconds from the end of a call to the first token of its response, with and without a kept cache."""
    if not folder.is_dir():
        raise EnvaceError(f"{folder}: no such policy", "run `dvc repro warmup`, or name a model folder")
    model = load(folder)
    vocabulary = model.config.vocab_size
    seconds: dict[int, list[float]] = {KEPT: [], 0: []}
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        histories = [[rng.randrange(100, vocabulary) for _ in range(HISTORY)] for _ in range(ROWS)]
        for kept, times in seconds.items():
            sampler: Any = engine("hf", model, vocabulary, kept_tokens=kept)
            acted = sampler.generate(histories, Sampling(1.0, CALL, seed=seed, continued=True))
            prompts = [past + group[0].ids for past, group in zip(histories, acted, strict=True)]
            begun = time.perf_counter()
            sampler.generate(prompts, Sampling(1.0, 1, seed=seed))
            times.append(time.perf_counter() - begun)
            # A kept cache recomputes nothing, the other everything but each call's last token.
            assert sampler.recomputed_tokens == (0 if kept else ROWS * (HISTORY + CALL - 1))
    kept, recomputed = seconds[KEPT], seconds[0]
    ratios = [slow / fast for fast, slow in zip(kept, recomputed, strict=True)]
    return {
        "value": median(ratios),
        "kept_seconds": median(kept),
        "recomputed_seconds": median(recomputed),
        "history_tokens": HISTORY,
        "rows": ROWS,
    }


def lockstep() -> dict[str, float]:
    """Useful tokens a second of 64 roll-outs, both in vLLM's own environment; see `lockstep.py`."""
    folder, outcome = vllm_cpu.smollm2(), Path(".scratch/lockstep.json").absolute()
    outcome.unlink(missing_ok=True)
    done = subprocess.run(
        [vllm_cpu.python(), HERE / "lockstep.py", folder, outcome],
        env=os.environ | vllm_cpu.settings(),
        stdout=subprocess.DEVNULL,
    )
    if done.returncode or not outcome.is_file():
        raise EnvaceError(f"lockstep.py stopped with code {done.returncode}", "see its messages above")
    figures: dict[str, float] = read_json(outcome)
    return figures


if __name__ == "__main__":
    main()
