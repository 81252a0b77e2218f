"""Rehearsed roll-outs: tokens a second of the in-process engine and of `transformers.generate`.

    python benchmarks/generate.py [MODEL_FOLDER]

Runs alternate, so that a busy machine slows both alike; the figure is the median.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from envace.chat import CompactTemplate
from envace.engines import Sampling
from envace.engines.hf import HFEngine
from envace.models.build import load
from envace.worlds.tasks import pose

Prompts = list[list[int]]
ROUNDS = 3
TASKS, SAMPLES, NEW_TOKENS = 24, 8, 96


def main() -> None:
    """Measure, print one RESULT line, write JSON."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "models/warmup")
    torch.set_num_threads(2)
    model, template = load(folder), CompactTemplate(folder)
    tasks = [pose(world, "order" if world == "store" else "add_later", seed, "held_out")
             for seed in range(TASKS // 2) for world in ("store", "agenda")]  # fmt: skip
    prompts = [template.render(task.messages, task.tools).ids for task in tasks]
    ours, theirs = [], []
    for seed in range(ROUNDS):
        ours.append(engine_rate(model, template, prompts, seed))
        theirs.append(generate_rate(model, template, prompts, seed))
    value, baseline = median(ours), median(theirs)
    print(f"RESULT name=rollout_tokens value={value:.0f} unit=tokens/s baseline={baseline:.0f}")
    result = {"name": "rollout_tokens", "value": value, "baseline": baseline, "unit": "tokens/s"}
    Path("benchmarks/generate.json").write_text(json.dumps(result) + "\n")


def engine_rate(model: Any, template: CompactTemplate, prompts: Prompts, seed: int) -> float:
    """Useful tokens a second of the engine."""
    engine = HFEngine(model, template.vocabulary)
    sampling = Sampling(1.0, NEW_TOKENS, template.end_ids, template.forbidden_ids, seed)
    begun = time.perf_counter()
    done = engine.generate(prompts, sampling, SAMPLES)
    tokens = sum(len(completion.ids) for group in done for completion in group)
    return tokens / (time.perf_counter() - begun)


def generate_rate(model: Any, template: CompactTemplate, prompts: Prompts, seed: int) -> float:
    """Useful tokens a second of `transformers.generate`: tokens after a row's end are not counted."""
    (end,) = template.end_ids
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    torch.manual_seed(seed)
    begun = time.perf_counter()
    out = model.generate(
        input_ids=ids, attention_mask=mask, do_sample=True, top_k=0, num_return_sequences=SAMPLES,
        max_new_tokens=NEW_TOKENS, eos_token_id=end, pad_token_id=0,
        suppress_tokens=[*template.forbidden_ids, *range(template.vocabulary, model.config.vocab_size)],
    )  # fmt: skip
    rows = out[:, width:].tolist()
    tokens = sum(row.index(end) + 1 if end in row else len(row) for row in rows)
    return tokens / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
