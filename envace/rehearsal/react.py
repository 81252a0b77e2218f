"""Control: a private thought in words before each act turn, without any prediction.

Source: Yao et al., ReAct: Synergizing Reasoning and Acting in Language Models, 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envace.engines import Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings
from envace.rehearsal.draft import Draft, Written, note
from envace.rehearsal.play import say
from envace.rehearsal.rule import keep_within
from envace.rehearsal.trace import Branch
from envace.rollout.sampling import for_turn

INSTRUCTION = (
    "Think before you act: in a sentence or two, what is known, what is still missing, and what to do "
    "next. Do not act yet."
)


@dataclass(frozen=True)
class React:
    """One thought of as many tokens at most as `budget` rehearsals may take."""

    settings: Settings
    every_turn: ClassVar[bool] = True

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Think; see `Strategy`."""
        settings, template = self.settings, policy.template
        sampling = Sampling(settings.temperature, settings.budget * settings.turn_tokens, seed=seed)
        prompts = [(state, (note(INSTRUCTION),)) for state in conversations]
        prepared = []
        for (state, _), (thought, turn) in zip(
            prompts, say(policy, prompts, for_turn(sampling, "thought", 0)), strict=True
        ):
            draft = Draft(state)
            draft.branches.append(Branch(seen=INSTRUCTION, sampled=template.raw(turn.ids), thought=thought))
            draft.tokens["thought"] += len(turn.ids)
            draft.memory = Written(keep_within(template, thought, settings.memory_tokens))
            prepared.append(draft.preparation(template))
        return prepared
