"""Control: attempts with a verbal reflection on each, without any prediction.

The counterpart of sequential rehearsal. Attempts stay private as there, so that real calls are as
few; what a reflection rests on is therefore the attempt alone, not its outcome.
Source: Shinn et al., Reflexion: Language Agents with Verbal Reinforcement Learning, 2023.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envace.chat.compact import act_text
from envace.engines import Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings
from envace.rehearsal.draft import Draft, Written, note
from envace.rehearsal.play import say, write_turns
from envace.rehearsal.rule import keep_within
from envace.rollout.sampling import for_turn

INSTRUCTION = (
    "Above is an attempt that you have not carried out. In a sentence or two: what could be wrong with "
    "it, and what would be better? Do not act yet."
)


@dataclass(frozen=True)
class Reflexion:
    """`budget` rounds: an act turn in view of what was thought of the former ones, and a reflection.

    The memory holds the latest attempt first: it is the last to leave when the budget is short.
    """

    settings: Settings
    every_turn: ClassVar[bool] = False

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Attempt and reflect; see `Strategy`."""
        settings, template = self.settings, policy.template
        sampling = Sampling(settings.temperature, settings.turn_tokens, seed=seed)
        drafts = [Draft(state) for state in conversations]
        for number in range(settings.budget):
            prompts = [(draft.conversation, draft.memory.notes) for draft in drafts]
            groups = write_turns(policy, prompts, for_turn(sampling, "act", number))
            turns = [group[0] for group in groups]
            texts = [act_text(template.parse_act(turn.ids)) for turn in turns]
            asked = [
                (state, (*notes, note(f"{text}\n{INSTRUCTION}")))
                for (state, notes), text in zip(prompts, texts, strict=True)
            ]
            said = say(policy, asked, for_turn(sampling, "thought", number))
            for draft, turn, text, (thought, reflection) in zip(drafts, turns, texts, said, strict=True):
                draft.attempted(template, turn, thought)
                draft.tokens["thought"] += len(reflection.ids)
                lines = [line for line in (text, thought, draft.memory.text) if line]
                draft.memory = Written(keep_within(template, "\n".join(lines), settings.memory_tokens))
        return [draft.preparation(template) for draft in drafts]
