"""The project's own held-out tasks, executed for real in their worlds.

Beside the strategy's own score, commit-once worlds get three rows that say where it comes
from: a memory of true responses (`oracle`), of permuted ones (`wrong`), and the memory's
first call committed without the act role (`rule`).
"""

import random
from collections.abc import Sequence
from pathlib import Path

from envace.benchmarks.base import BenchmarkResult, TaskResult, summarize
from envace.chat import Template, TokenRole
from envace.engines import Engine, Sampling
from envace.files import digest
from envace.rehearsal.base import Policy, Preparation, Settings, conversations
from envace.rehearsal.each_turn import EachTurn
from envace.rehearsal.memory import Rehearsed, memory_message
from envace.rehearsal.strategies import Named, strategy
from envace.rollout.answered import answered_episodes
from envace.rollout.responders import WorldResponder
from envace.trajectory import Task, ToolCall, compact
from envace.worlds import WORLDS
from envace.worlds.tasks import rebuild, verify

TURN_TOKENS = 64
"""Tokens at most in one act span."""
PROTOCOL = (
    "Held-out names, greedy decoding, real execution; success means goal state and answer both "
    "equal the expert's. Strategy parallel rehearses the first call of every task."
)


def run_worlds(
    engine: Engine,
    template: Template,
    tasks: Sequence[Task],
    strategy_name: str,
    branches: int,
    seed: int,
    model: str,
    source: Path,
) -> BenchmarkResult:
    """Evaluate a policy on the worlds.

    Args:
        engine: The policy.
        template: Its chat template.
        tasks: Held-out tasks.
        strategy_name: Rehearsal strategy.
        branches: Branches of each rehearsal.
        seed: Seed of rehearsal sampling and bootstrap.
        model: Name recorded in the result.
        source: The task file, for the data digest.
    """
    policy = Policy(engine, template)
    rehearsal = strategy(strategy_name, Settings(budget=branches))
    results, prepared = execute(policy, tasks, rehearsal, seed)
    committing = [task for task in tasks if WORLDS[task.world].commit_once]
    if strategy_name != "none":
        chosen = {task.id: item for task, item in zip(tasks, prepared, strict=True)}
        results += [_rule(task, chosen[task.id].recommended) for task in committing]
        for label, permute in (("oracle", False), ("wrong", True)):
            given = [_true_memory(task, permute, seed) for task in committing]
            results += _execute(policy, committing, given, suffix=f"/{label}")
    return BenchmarkResult(
        benchmark="worlds",
        model=model,
        strategy=strategy_name,
        protocol=PROTOCOL,
        official=False,
        harness="envace.worlds",
        dataset_sha=digest(source),
        seed=seed,
        groups=summarize(results, {result.id: 0 for result in results}, seed),
        tasks=tuple(results),
    )


def execute(
    policy: Policy, tasks: Sequence[Task], rehearsal: Named, seed: int
) -> tuple[list[TaskResult], list[Preparation]]:
    """Rehearse, act greedily and execute every task for real.

    Args:
        policy: The policy.
        tasks: Tasks of executable worlds.
        rehearsal: The strategy; it prepares the first act turn of an episode, or each.
        seed: Seed of the rehearsals.

    Returns:
        Results, and the preparations of the first act turns, in the order of the tasks.
    """
    if not rehearsal.every_turn:
        prepared = rehearsal.prepare(policy, conversations(tasks), seed)
        return _execute(policy, tasks, prepared), prepared
    acting = EachTurn(rehearsal, policy, seed)
    results = _execute(policy, tasks, [Preparation() for _ in tasks], acting)
    return results, [acting.first[index] for index in range(len(tasks))]


def _execute(
    policy: Policy,
    tasks: Sequence[Task],
    prepared: Sequence[Preparation],
    acting: EachTurn | None = None,
    suffix: str = "",
) -> list[TaskResult]:
    prompts = [(task, item.notes) for task, item in zip(tasks, prepared, strict=True)]
    episodes = answered_episodes(
        policy.engine,
        policy.template,
        prompts,
        Sampling(0.0, TURN_TOKENS),
        WorldResponder(tasks),
        act_turns=acting,
    )
    results = []
    for index, (episode, item) in enumerate(zip(episodes, prepared, strict=True)):
        verdict = verify(episode.task, list(episode.calls), episode.answer)
        results.append(
            TaskResult(
                id=episode.task.id + suffix,
                category=f"{episode.task.world}.{episode.task.template}{suffix}",
                success=int(verdict.success),
                scores={"state": float(verdict.state_reached), "answer": float(verdict.answer_right)},
                act_tokens=episode.tokens(TokenRole.ACT),
                rehearsal_tokens=acting.tokens[index] if acting else item.tokens,
                steps=len(episode.calls),
                error=episode.fault,
            )
        )
    return results


def _rule(task: Task, recommended: ToolCall | None) -> TaskResult:
    """Commit the memory's first call; success is the goal state, since a rule gives no answer."""
    reached = verify(task, [recommended] if recommended else [], None).state_reached
    return TaskResult(
        id=f"{task.id}/rule",
        category=f"{task.world}.{task.template}/rule",
        success=int(reached),
        steps=int(recommended is not None),
    )


def _true_memory(task: Task, permute: bool, seed: int) -> Preparation:
    """A complete memory from the world itself; `permute` hands each response to another call."""
    world, _ = rebuild(task)
    tool = next(tool for tool in task.tools if tool.irreversible)
    calls = [ToolCall(name=tool.name, arguments=arguments) for arguments in world.commit_arguments()]
    responses = [compact(world.copy().call(call)) for call in calls]
    if permute:
        shift = random.Random(f"wrong/{seed}/{task.id}").randrange(1, len(responses))
        responses = responses[shift:] + responses[:shift]
    memory = memory_message(list(map(Rehearsed, calls, responses)), task.tools)
    return Preparation(notes=(memory.message,))
