"""What every reward returns, and the seam behind which episodes are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envace.rollout.episode import Episode
from envace.worlds import WORLDS
from envace.worlds.tasks import Step, Verdict, verify


@dataclass(frozen=True)
class Scored:
    """A judged episode."""

    episode: Episode
    """The roll-out."""
    reward: float | None
    """S of the trajectory; None when it could not be judged, and then it leaves baseline and loss."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the reward was made of, by name, each in [0, 1]."""
    verdict: Verdict | None = None
    """What the world says about it; None where the task has no executable world."""

    @property
    def revealed(self) -> tuple[Step, ...]:
        """The committed calls with the world's responses; none without a world."""
        return self.verdict.steps if self.verdict else ()

    def agreement(self) -> list[bool]:
        """For each rehearsed response that the world revealed, whether it was equal, exactly."""
        return [
            predicted == step.response
            for predicted, step in zip(self.episode.responses, self.revealed, strict=False)
        ]


class Reward(Protocol):
    """Judges finished episodes."""

    def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        """Judge every episode, in the order given.

        Raises:
            EnvaceError: An episode's task cannot be judged in this way, or the judge is out of order.
        """
        ...


def world_verdict(episode: Episode) -> Verdict | None:
    """Replay the episode's calls where its task has an executable world."""
    if episode.task.world not in WORLDS:
        return None
    return verify(episode.task, list(episode.calls), episode.answer)
