"""Process reward: whether each call is in order, whatever comes of it, on top of an outcome reward.

    S = outcome + weight · process

The process part is a mean over calls and over three yes/no questions a call: does it name a tool
on offer with arguments that fit its schema, is it new (no equal call before it in the episode),
and did it get a response that is a JSON object or list. It helps a policy that seldom succeeds;
the weight should stay so small that good form never pays better than success.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from envace.filters.calls import SchemaCache
from envace.rewards.base import Reward, Scored
from envace.rollout.episode import Episode


class Process:
    """An outcome reward with a share for good form."""

    def __init__(self, outcome: Reward, weight: float = 0.1) -> None:
        """Add `weight` times the process part, in [0, 1], to what `outcome` says."""
        self.outcome = outcome
        self.weight = weight
        self._schemas = SchemaCache()

    def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        """Judge the outcome and add the process; an outcome nobody could judge stays so.

        `parts` holds the outcome's own, and `outcome` and `process`.

        Raises:
            EnvaceError: The outcome reward raises it.
        """
        return [self._with_process(scored) for scored in self.outcome.score(episodes)]

    def _with_process(self, scored: Scored) -> Scored:
        if scored.reward is None:
            return scored
        process = good_form(scored.episode, self._schemas)
        return replace(
            scored,
            reward=scored.reward + self.weight * process,
            parts={**scored.parts, "outcome": scored.reward, "process": process},
        )


def good_form(episode: Episode, schemas: SchemaCache) -> float:
    """The process part, in [0, 1]; 0 without calls, so that not calling never pays better."""
    tools = {tool.name: tool for tool in episode.task.tools}
    seen: set[str] = set()
    points = 0
    for index, call in enumerate(episode.calls):
        tool = tools.get(call.name)
        points += tool is not None and schemas.problem(tool.parameters, call.arguments) is None
        text = json.dumps([call.name, call.arguments], sort_keys=True)
        points += text not in seen
        seen.add(text)
        points += index < len(episode.responses) and _is_structured(episode.responses[index])
    return points / (3 * len(episode.calls)) if episode.calls else 0.0


def _is_structured(response: str) -> bool:
    try:
        return isinstance(json.loads(response), dict | list)
    except (ValueError, RecursionError):
        return False
