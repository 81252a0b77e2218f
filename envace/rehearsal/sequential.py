"""Sequential rehearsal: one attempt after the other, each in view of the former and their revision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envace.engines import Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings
from envace.rehearsal.draft import Draft
from envace.rehearsal.memories import remember
from envace.rehearsal.play import respond, write_turns
from envace.rollout.sampling import for_turn


@dataclass(frozen=True)
class Sequential:
    """`budget` rounds: a call in view of the memory, its predicted response, the memory revised.

    The attempts of a round are made for all conversations together. The last revision is the memory
    that the act role commits in view of.
    """

    settings: Settings
    every_turn: ClassVar[bool] = False

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Attempt, predict and revise; see `Strategy`."""
        settings, template = self.settings, policy.template
        sampling = Sampling(settings.temperature, settings.turn_tokens, seed=seed)
        drafts = [Draft(state) for state in conversations]
        for number in range(settings.budget):
            prompts = [(draft.conversation, draft.memory.notes) for draft in drafts]
            groups = write_turns(policy, prompts, for_turn(sampling, "act", number))
            turns = [group[0] for group in groups]
            answered = respond(policy, conversations, turns, for_turn(sampling, "environment", number))
            for draft, episode in zip(drafts, answered, strict=True):
                draft.rehearsed(template, episode)
            remember(policy, drafts, settings, for_turn(sampling, "memory", number).seed)
        return [draft.preparation(template) for draft in drafts]
