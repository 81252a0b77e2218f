"""EnvACE training: the loop over steps, resumable."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from envace.chat import Template, TokenStream
from envace.chat.prompted import PromptedLayout
from envace.engines import TrainableEngine
from envace.errors import EnvaceError
from envace.params import TrainParams
from envace.progress import track
from envace.rewards import Reward
from envace.rl.checkpoint import Checkpoint, Stateful
from envace.rl.distributed import ALONE, Ranks, agree, clip_gradients, sum_gradients
from envace.rl.experience import Answerer, collect, draw_tasks, joined
from envace.rl.measures import measures
from envace.rl.observe import Observer
from envace.rl.optimizer import warmup_then_linear
from envace.rl.rows import ROLES, PolicyRow, policy_rows
from envace.rl.steps import optimize
from envace.rl.update import backward
from envace.worlds import DEFAULT

RISE = 5
"""Steps of linear learning-rate rise."""
SEEDS_A_STEP = 100
"""Sampling seeds set apart for one step of one rank, so that no two draw the same numbers."""
MOST_CUT = 0.95
"""Share of roll-outs cut by a limit above which training stops: their rewards say nothing."""
Report = Callable[[Mapping[str, float]], None]
"""Gets the log row of every step; a resumed run reports the finished steps again first."""


def train(
    model: Any,
    engine: TrainableEngine,
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
    ranks: Ranks = ALONE,
    worlds: Sequence[str] = DEFAULT,
) -> list[dict[str, float]]:
    """Train in place, resuming where `checkpoint` left off; returns one log row a step.

    Args:
        model: Policy to train, whole or this rank's shard.
        engine: The policy as a source of tokens; takes over its weights before every step.
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
        ranks: All processes. Each rolls out its share of the tasks and runs its share of the passes;
            what is decided and logged in between is decided on all roll-outs, by every rank alike.
        worlds: Where tasks are drawn from.

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
    observer = Observer(model, logged, params.observe_rate, params.observe_rows, params.observe_logged, ranks)
    parts: dict[str, Stateful] = {"policy": optimizer, "observer": observer}
    start, extra = checkpoint.load(model, parts)
    agree(start, ranks, model.device)
    log: list[dict[str, float]] = extra.get("log", [])
    environment_only = sorted({template.response_end} - {template.call_end, *template.end_ids})
    clock = seconds if seconds is not None else Counter()

    def gradient(rows: Sequence[PolicyRow]) -> dict[str, float]:
        own = ranks.block(rows)
        return backward(model, own, settings, never, environment_only, reference, ranks.sum)

    def apply() -> float:
        sum_gradients(model, ranks)
        norm = clip_gradients(model)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return norm

    for row in log:
        report(row)
    for step in track(range(params.steps), "training", start, ranks.first):
        rng, step_seed = random.Random(f"train/{seed}/{step}"), (seed * 1_000_000 + step) * SEEDS_A_STEP
        tasks = draw_tasks(params.chained_tasks, params.committing_tasks, rng, worlds)
        begun = time.monotonic()
        engine.sync(model)
        own = collect(
            engine, template, ranks.own(tasks), params.group, params.branches, params.max_new_tokens,
            step_seed * ranks.count + ranks.rank * SEEDS_A_STEP, answerer, reward, layout,
        )  # fmt: skip
        experience = joined(ranks.gather(own))
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
