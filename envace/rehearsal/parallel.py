"""Parallel rehearsal: N private branches from the current state, summarized into a memory.

A branch is the next call, sampled from the act role, and the response that the
environment role predicts for it. Nothing here can reach a world: only an engine is given.
(A comparison may hand in somebody else to answer; nothing that serves or evaluates does.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from envace.chat import Template
from envace.engines import Engine, Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings
from envace.rehearsal.draft import Draft
from envace.rehearsal.memories import remember
from envace.rehearsal.memory import Memory, Rehearsed, memory_message
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Episode, Limits, Notes
from envace.rollout.rehearse import rehearse_episodes
from envace.rollout.responders import Responder
from envace.rollout.sampling import for_turn
from envace.trajectory import Task

BRANCH_TOKENS = Settings.turn_tokens
"""Tokens at most in one branch: a call and its response."""


@dataclass(frozen=True)
class Parallel:
    """`budget` branches of one call and its predicted response each, in one batch."""

    settings: Settings
    every_turn: ClassVar[bool] = False

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Rehearse and remember; see `Strategy`."""
        settings, template = self.settings, policy.template
        drafts = [Draft(state) for state in conversations]
        rehearsals = rehearse_next_call(
            policy.engine,
            template,
            [state.task() for state in conversations],
            settings.budget,
            temperature=settings.temperature,
            seed=seed,
            branch_tokens=settings.turn_tokens,
        )
        for draft, rehearsal in zip(drafts, rehearsals, strict=True):
            for episode in rehearsal.branches:
                draft.rehearsed(template, episode)
        remember(policy, drafts, settings, for_turn(Sampling(seed=seed), "memory", 0).seed)
        return [draft.preparation(template) for draft in drafts]


@dataclass(frozen=True)
class Rehearsal:
    """What one private rehearsal produced."""

    memory: Memory
    """The summary given to the act role."""
    branches: tuple[Episode, ...]
    """Every branch, malformed ones included."""


def rehearse_next_call(
    engine: Engine,
    template: Template,
    tasks: Sequence[Task],
    branches: int,
    repeats: int = 1,
    temperature: float = 1.0,
    seed: int = 0,
    answerer: Callable[[Sequence[Task], int], Responder] | None = None,
    branch_tokens: int = BRANCH_TOKENS,
) -> list[Rehearsal]:
    """Rehearse the next call `repeats` times, with `branches` branches each, for every task.

    All branches of a task share one prefill. An `answerer` makes the responder that writes the
    responses in place of the policy's own environment role.

    Returns:
        Rehearsals grouped by task: entry `i * repeats + k` is rehearsal `k` of task `i`.
    """
    sampling = Sampling(temperature, branch_tokens, seed=seed)
    per_task, one_response = branches * repeats, Limits(turns=1)
    if answerer is None:
        prompts: list[tuple[Task, Notes]] = [(task, ()) for task in tasks]
        episodes = rehearse_episodes(engine, template, prompts, sampling, per_task, one_response)
    else:
        prompts = [(task, ()) for task in tasks for _ in range(per_task)]
        responder = answerer([task for task, _ in prompts], seed)
        episodes = answered_episodes(engine, template, prompts, sampling, responder, one_response)
    own = [tuple(episodes[start : start + branches]) for start in range(0, len(episodes), branches)]
    return [Rehearsal(memory_message(_predicted(group), group[0].task.tools), group) for group in own]


def _predicted(branches: Sequence[Episode]) -> list[Rehearsed]:
    """Calls whose response was written to its end; anything else is not worth remembering."""
    return [
        Rehearsed(call, response)
        for branch in branches
        if len(branch.calls) == len(branch.responses)
        for call, response in zip(branch.calls, branch.responses, strict=True)
    ]
