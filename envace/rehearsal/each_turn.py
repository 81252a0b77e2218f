"""An act role that prepares before each of its turns."""

from collections import Counter
from collections.abc import Sequence

from envace.engines import Completion, Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation
from envace.rehearsal.play import commit
from envace.rehearsal.strategies import Named
from envace.rollout.open_episode import OpenEpisode
from envace.rollout.sampling import for_turn


class EachTurn:
    """Writes the act turns of `answered_episodes`, for evaluation.

    Notes are in view of the turn they were made for and never enter the episode, so its rows must
    not be trained on: they lack the context in which they were sampled.
    """

    def __init__(self, strategy: Named, policy: Policy, seed: int) -> None:
        """Prepare with a strategy; `seed` is that of all its sampling."""
        self.strategy = strategy
        self.policy = policy
        self.seed = seed
        self.turns = 0
        self.tokens: Counter[int] = Counter()
        """Private tokens so far, by index of the episode."""
        self.first: dict[int, Preparation] = {}
        """The preparation of each episode's first turn, by index."""

    def __call__(self, waiting: Sequence[OpenEpisode], sampling: Sampling) -> list[Completion]:
        """Prepare and write the turn of every waiting episode."""
        states = [Conversation(tuple(episode.messages), episode.task.tools) for episode in waiting]
        seed = for_turn(Sampling(seed=self.seed), "prepare", self.turns).seed
        self.turns += 1
        prepared = self.strategy.prepare(self.policy, states, seed)
        for episode, item in zip(waiting, prepared, strict=True):
            self.tokens[episode.index] += item.tokens
            self.first.setdefault(episode.index, item)
        return commit(self.policy, states, prepared, sampling)
