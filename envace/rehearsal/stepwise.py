"""Stepwise rehearsal: look some steps ahead in private before each real call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envace.engines import Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings
from envace.rehearsal.draft import Draft
from envace.rehearsal.memories import remember
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Limits
from envace.rollout.responders import RehearsalResponder
from envace.rollout.sampling import for_turn


@dataclass(frozen=True)
class Stepwise:
    """One imagined continuation of up to `budget` calls with their predicted responses."""

    settings: Settings
    every_turn: ClassVar[bool] = True

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Look ahead and remember; see `Strategy`."""
        settings, template = self.settings, policy.template
        sampling = Sampling(settings.temperature, settings.turn_tokens, seed=seed)
        drafts = [Draft(state) for state in conversations]
        # The roles take turns, so that nothing is written behind the last step wanted.
        episodes = answered_episodes(
            policy.engine,
            template,
            [(state.task(), ()) for state in conversations],
            sampling,
            RehearsalResponder(policy.engine, template, sampling),
            Limits(turns=settings.budget),
        )
        for draft, episode in zip(drafts, episodes, strict=True):
            draft.rehearsed(template, episode)
        remember(policy, drafts, settings, for_turn(sampling, "memory", 0).seed)
        return [draft.preparation(template) for draft in drafts]
