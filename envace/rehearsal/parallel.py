"""Parallel rehearsal: N private branches from the current state, summarized into a memory.

A branch is the next call, sampled from the act role, and the response that the
environment role predicts for it. Nothing here can reach a world: only an engine is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from envace.chat import CompactTemplate
from envace.engines import Engine, Sampling
from envace.rehearsal.memory import Memory, Rehearsed, memory_message
from envace.rollout.episode import Episode, parse_episode
from envace.trajectory import Task

BRANCH_TOKENS = 64
"""Tokens at most in one branch: a call and its response."""


@dataclass(frozen=True)
class Rehearsal:
    """What one private rehearsal produced."""

    memory: Memory
    """The summary given to the act role."""
    branches: tuple[Episode, ...]
    """Every branch, malformed ones included."""


def rehearse_next_call(
    engine: Engine,
    template: CompactTemplate,
    tasks: Sequence[Task],
    branches: int,
    repeats: int = 1,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[Rehearsal]:
    """Rehearse the next call `repeats` times, with `branches` branches each, for every task.

    All branches of a task share one prefill.

    Returns:
        Rehearsals grouped by task: entry `i * repeats + k` is rehearsal `k` of task `i`.
    """
    rendered = [template.render(task.messages, task.tools).ids for task in tasks]
    stop = frozenset({template.response_end}) | template.end_ids
    sampling = Sampling(temperature, BRANCH_TOKENS, stop, template.forbidden_ids, seed)
    completions = engine.generate(rendered, sampling, n=branches * repeats)
    rehearsals: list[Rehearsal] = []
    for task, ids, group in zip(tasks, rendered, completions, strict=True):
        episodes = [parse_episode(template, task, (), ids, completion) for completion in group]
        for start in range(0, len(episodes), branches):
            own = tuple(episodes[start : start + branches])
            rehearsals.append(Rehearsal(memory_message(_predicted(own), task.tools), own))
    return rehearsals


def _predicted(branches: Sequence[Episode]) -> list[Rehearsed]:
    """Calls whose response was written to its end; anything else is not worth remembering."""
    return [
        Rehearsed(call, response)
        for branch in branches
        if len(branch.calls) == len(branch.responses)
        for call, response in zip(branch.calls, branch.responses, strict=True)
    ]
