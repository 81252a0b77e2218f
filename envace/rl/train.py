"""EnvACE training: the loop over steps, resumable."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from envace.chat import Template, TokenStream
from envace.chat.prompted import PromptedLayout
from envace.engines import Engine
from envace.errors import EnvaceError
from envace.params import TrainParams
from envace.progress import track
from envace.rewards import Reward
from envace.rl.checkpoint import Checkpoint, Stateful
from envace.rl.experience import Answerer, collect, draw_tasks
from envace.rl.measures import measures
from envace.rl.observe import Observer
from envace.rl.optimizer import warmup_then_linear
from envace.rl.rows import ROLES, policy_rows
from envace.rl.steps import optimize
from envace.rl.update import backward

RISE = 5
"""Steps of linear learning-rate rise."""
SEEDS_A_STEP = 100
"""Sampling seeds set apart for one step, so that no two steps draw the same numbers."""
MOST_CUT = 0.95
"""Share of roll-outs cut by a limit above which training stops: their rewards say nothing."""
Report = Callable[[Mapping[str, float]], None]
"""Gets the log row of every step; a resumed run reports the finished steps again first."""


def train(
    model: Any,
    engine: Engine,
    template: Template,
    logged: Sequence[TokenStream],
    params: TrainParams,
    seed: int,
    checkpoint: Checkpoint,
    *,
    answerer: Answerer | None = None,
    reward: Reward | None = None,
    layout: PromptedLayout | None = None,
    reference: Any = None,
    report: Report = lambda row: None,
    seconds: Counter[str] | None = None,
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
        answerer: Who answers calls in place of one generation by the policy itself.
        reward: Who judges finished episodes; the world unless given.
        layout: The environment role's layout in what it observes; None is inline.
        reference: Frozen model of the KL term.
        report: Follows the run.
        seconds: Gets the seconds of each phase; not part of the log, which repeats exactly.

    Raises:
        EnvaceError: Settings that contradict each other, or nearly all roll-outs were cut.
    """
    settings = params.update
    if params.answers != "rehearsal" and settings.environment in ("grpo", "both"):
        raise EnvaceError(
            f"environment: {settings.environment} rewards responses that the policy did not write",
            "use observe or none where somebody else answers",
        )
    if settings.kl > 0 and reference is None:
        raise EnvaceError("train.update.kl needs a reference model", "set it to 0, or pass one")
    never = [*template.forbidden_ids, *range(template.vocabulary, model.config.vocab_size)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=params.rate, betas=(0.9, 0.95), weight_decay=0.0)
    observer = Observer(model, logged, params.observe_rate, params.observe_rows)
    parts: dict[str, Stateful] = {"policy": optimizer, "observer": observer}
    start, extra = checkpoint.load(model, parts)
    log: list[dict[str, float]] = extra.get("log", [])
    environment_only = sorted({template.response_end} - {template.call_end, *template.end_ids})
    gradient = partial(
        backward, model, settings=settings, never=never, environment_only=environment_only,
        reference=reference,
    )  # fmt: skip
    clock = seconds if seconds is not None else Counter()

    def apply() -> float:
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return norm

    for row in log:
        report(row)
    for step in track(range(params.steps), "training", start):
        rng, step_seed = random.Random(f"train/{seed}/{step}"), (seed * 1_000_000 + step) * SEEDS_A_STEP
        tasks = draw_tasks(params.chained_tasks, params.committing_tasks, rng)
        begun = time.monotonic()
        experience = collect(
            engine, template, tasks, params.group, params.branches, params.max_new_tokens, step_seed,
            answerer, reward, layout,
        )  # fmt: skip
        row = {"step": step + 1, **measures(experience, environment_only)}
        _refuse_cut(row, len(experience.scored))
        factor = warmup_then_linear(step, params.steps, warmup=RISE, hold=0.4, floor=0.03)
        collected = time.monotonic()

        optimizer.param_groups[0]["lr"] = params.rate * factor
        chosen = policy_rows(experience, settings, step_seed)
        row |= chosen.counts | optimize(chosen.rows, settings, gradient, apply, step_seed)
        updated = time.monotonic()

        before = observer.trained_tokens
        if settings.environment in ("observe", "both"):
            observer.add(experience.revealed)
        if params.observe_steps:
            losses = [observer.learn(rng, factor, settings.token_budget) for _ in range(params.observe_steps)]
            row["observe_loss"] = sum(losses) / len(losses)
        policy_tokens = sum(chosen_row.tokens(role) for chosen_row in chosen.rows for role in ROLES)
        row["trained_tokens"] = settings.epochs * policy_tokens + observer.trained_tokens - before
        clock.update(
            {
                "roll-outs": collected - begun,
                "policy update": updated - collected,
                "observation": time.monotonic() - updated,
            }
        )
        report(row)
        log.append(row)
        if (step + 1) % params.checkpoint_every == 0:
            checkpoint.save(model, parts, step + 1, {"log": log})
    return log


def _refuse_cut(row: Mapping[str, float], rollouts: int) -> None:
    """Stop where nearly all roll-outs were cut: a silent truncation makes every reward 0."""
    cut = sum(value for name, value in row.items() if name.startswith("cut_"))
    if cut >= MOST_CUT * rollouts:
        raise EnvaceError(
            f"training step {row['step']:.0f}: {cut:.0f} of {rollouts} roll-outs were cut by a limit",
            "raise train.max_new_tokens, or warm up for longer",
        )
