"""What a policy does first where one call decides: acted greedily, executed for real."""

from collections.abc import Sequence

from envace.chat import Template
from envace.engines import Engine, Sampling
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Limits
from envace.rollout.responders import WorldResponder
from envace.trajectory import Task
from envace.worlds.tasks import Step

CALL_TOKENS = 64
"""Tokens at most in the act turn."""


def first_calls(engine: Engine, template: Template, tasks: Sequence[Task]) -> list[Step | None]:
    """The first call of a policy for each task with the world's response, in order.

    Args:
        engine: The policy.
        template: Its chat template.
        tasks: Tasks of executable worlds.

    Returns:
        None for a task that it answered without a call, or not legibly.
    """
    episodes = answered_episodes(
        engine,
        template,
        [(task, ()) for task in tasks],
        Sampling(0.0, CALL_TOKENS),
        WorldResponder(tasks),
        Limits(turns=1),
    )
    return [
        Step(episode.calls[0], episode.responses[0]) if episode.responses else None for episode in episodes
    ]
