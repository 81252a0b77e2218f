"""EnvACE training: the loop over steps, resumable, with the collusion alarm in its log."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from envace.chat import CompactTemplate, TokenStream
from envace.engines import Engine
from envace.errors import EnvaceError
from envace.params import TrainParams
from envace.progress import track
from envace.quality.collusion import collusion
from envace.rl.checkpoint import Checkpoint, Stateful
from envace.rl.experience import Experience, collect, draw_tasks
from envace.rl.observe import Observer
from envace.rl.optimizer import warmup_then_linear
from envace.rl.update import UpdateSettings, backward, policy_rows
from envace.worlds import WORLDS

RISE = 5
"""Steps of linear learning-rate rise."""
SEEDS_A_STEP = 100
"""Sampling seeds set apart for one step, so that no two steps draw the same numbers."""


def train(
    model: Any,
    engine: Engine,
    template: CompactTemplate,
    logged: Sequence[TokenStream],
    params: TrainParams,
    seed: int,
    checkpoint: Checkpoint,
    simulator: Engine | None = None,
) -> list[dict[str, float]]:
    """Train in place, resuming where `checkpoint` left off; returns one log row a step.

    Args:
        model: Policy to train; `engine` must sample from the same object.
        engine: The policy as a source of tokens.
        template: Its chat template.
        logged: Streams of the warm-up data with true responses: the anchor of observation.
        params: Hyper-parameters.
        seed: Seed of tasks and sampling.
        checkpoint: Resume point of this run.
        simulator: A model that answers in place of the policy, e.g. a frozen copy.
    """
    if simulator is not None and params.environment in ("grpo", "both"):
        raise EnvaceError(
            f"environment: {params.environment} rewards responses that a simulator wrote",
            "use observe or none with a simulator",
        )
    settings = UpdateSettings(
        environment=params.environment,
        environment_weight=params.environment_weight,
        mask_untrue=params.mask_untrue,
        std=params.std,
        entropy=params.entropy,
    )
    never = [*template.forbidden_ids, *range(template.vocabulary, model.config.vocab_size)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=params.rate, betas=(0.9, 0.95), weight_decay=0.0)
    observer = Observer(model, logged, params.observe_rate, params.observe_rows)
    parts: dict[str, Stateful] = {"policy": optimizer, "observer": observer}
    start, extra = checkpoint.load(model, parts)
    log: list[dict[str, float]] = extra.get("log", [])
    for step in track(range(params.steps), "training", start):
        rng = random.Random(f"train/{seed}/{step}")
        tasks = draw_tasks(params.chained_tasks, params.committing_tasks, rng)
        experience = collect(
            engine,
            template,
            tasks,
            params.group,
            params.branches,
            params.max_new_tokens,
            (seed * 1_000_000 + step) * SEEDS_A_STEP,
            simulator,
        )
        row = {"step": step + 1, **measures(experience)}
        factor = warmup_then_linear(step, params.steps, warmup=RISE, hold=0.4, floor=0.03)

        rows = policy_rows(experience, params.group, settings)
        row |= backward(model, rows, settings, never)
        row["gradient_norm"] = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.param_groups[0]["lr"] = params.rate * factor
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

        observer.add(experience.revealed)
        if params.environment in ("observe", "both"):
            losses = [observer.learn(rng, factor, settings.token_budget) for _ in range(params.observe_steps)]
            row["observe_loss"] = sum(losses) / max(1, len(losses))
        used = {id(policy_row.episode) for policy_row in rows}
        row["informative"] = sum(id(s.episode) in used for s in experience.scored) / len(experience.scored)
        log.append(row)
        if (step + 1) % params.checkpoint_every == 0:
            checkpoint.save(model, parts, step + 1, {"log": log})
    return log


def measures(experience: Experience) -> dict[str, float]:
    """What is logged of one step: success, agreement and the witness, by world."""
    worlds = {scored.episode.task.world for scored in experience.scored}
    row = {
        "success": experience.success(),
        "agreement": experience.agreement(),
        "rule_success": experience.rule_success(),
        "real_calls_per_rollout": experience.real_calls / len(experience.scored),
    }
    for name in WORLDS:
        if name in worlds:
            row[f"success_{name}"] = experience.success(name)
            row[f"agreement_{name}"] = experience.agreement(name)
    return row


def alarms(log: list[dict[str, float]], tolerance: float) -> dict[str, str]:
    """The collusion alarm of every world that raises it, as one line each."""
    raised = {}
    for name in WORLDS:
        rows = [row for row in log if f"success_{name}" in row]
        if not rows:
            continue
        success = [row[f"success_{name}"] for row in rows]
        agreement = [row[f"agreement_{name}"] for row in rows]
        report = collusion(success, agreement, tolerance)
        if report.alarm:
            raised[name] = report.line
    return raised


def summary(log: list[dict[str, float]]) -> dict[str, float]:
    """Means over the first and the last tenth of the run, and the cost in real calls."""
    tenth = max(1, len(log) // 10)
    values: dict[str, float] = {"steps": len(log)}
    for name in ("success", "agreement", "rule_success"):
        values[f"{name}_first"] = sum(row[name] for row in log[:tenth]) / tenth
        values[f"{name}_last"] = sum(row[name] for row in log[-tenth:]) / tenth
    for name in ("real_calls_per_rollout", "informative"):
        values[name] = sum(row[name] for row in log) / max(1, len(log))
    return values
