"""A few policy-gradient steps of a policy from scratch on one device, with their times.

A policy that has learned nothing has no successes to tell apart, so the advantages are made up:
what is looked at is speed, finite weights, and that the trainer sees the sampler's distribution.
Usage: python scripts/gpu_steps.py [cuda|cpu] [STEPS]
"""

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from envace.chat import load_template
from envace.compose import compose
from envace.engines import Engine, Sampling, engine
from envace.errors import EnvaceError
from envace.models.adapt import prepare
from envace.models.build import load, scratch
from envace.params import Params
from envace.rl.distributed import clip_gradients
from envace.rl.experience import draw_tasks
from envace.rl.rows import ACT, ENV, PolicyRow
from envace.rl.settings import UpdateSettings
from envace.rl.update import backward
from envace.rollout.rehearse import rehearse_episodes

GAP = 0.05
"""Nats a token between sampler and trainer that bfloat16 products explain."""


def main(device: str, steps: int) -> None:
    """Build, sample and learn; prints one line a step."""
    overrides = [f"scale.device={device}", "model.copy_steps=20"]
    params = Params.model_validate(yaml.safe_load(compose(overrides)))
    with tempfile.TemporaryDirectory() as folder:
        scratch(params.model, params.seed, Path(folder))
        template = load_template(folder)
        model = prepare(load(folder, params.scale.device, params.scale.dtype), params.scale, params.seed)
    sampler = engine("hf", model, template.vocabulary)
    never = [*template.forbidden_ids, *range(template.vocabulary, model.config.vocab_size)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=params.train.rate)
    for step in range(steps):
        begun = time.monotonic()
        rows = roll_outs(sampler, template, params, step)
        sampled = time.monotonic()
        log = backward(model, rows, UpdateSettings(environment="both"), never)
        clip_gradients(model)
        optimizer.step()
        optimizer.zero_grad()
        norm = sum(float(parameter.detach().square().sum()) for parameter in model.parameters()) ** 0.5
        learned = time.monotonic()
        tokens = log["act_tokens"] + log.get("environment_tokens", 0)
        print(
            f"{model.device} step {step + 1}: {tokens / (sampled - begun):,.0f} tokens/s sampled, "
            f"{tokens / (learned - sampled):,.0f} learned, "
            f"gap {log['sampler_gap']:.4f} nats, |weights| {norm:.1f}"
        )
        if not log["sampler_gap"] < GAP or not norm < float("inf"):
            raise EnvaceError(f"{model.device}: the trainer does not see the sampler's policy", "report this")


def roll_outs(sampler: Engine, template: Any, params: Params, step: int) -> list[PolicyRow]:
    """Rehearsed episodes, every other one praised and the rest blamed."""
    tasks = draw_tasks(params.train.chained_tasks, 0, random.Random(step), params.worlds)
    sampling = Sampling(1.0, params.train.max_new_tokens, seed=step)
    episodes = rehearse_episodes(
        sampler, template, [(task, ()) for task in tasks], sampling, params.train.group
    )
    rows = [row for episode in episodes for row in episode.rows()]
    return [
        PolicyRow(row, {ACT: sign, ENV: sign})
        for row, sign in zip(rows, [1.0, -1.0] * len(rows), strict=False)
    ]


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "cuda", int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    except EnvaceError as error:
        sys.exit(f"error: {error}")
