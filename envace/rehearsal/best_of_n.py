"""Control: self-consistency without rehearsal. The act turn sampled most often is committed.

Source: Wang et al., Self-Consistency Improves Chain of Thought Reasoning in Language Models, 2022;
here the vote is over act turns.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envace.chat import Template
from envace.chat.compact import act_text
from envace.engines import Completion, Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings
from envace.rehearsal.draft import Draft
from envace.rehearsal.play import write_turns
from envace.rollout.sampling import for_turn


@dataclass(frozen=True)
class BestOfN:
    """`budget` act turns in one batch, and a vote; nothing is predicted and nothing remembered."""

    settings: Settings
    every_turn: ClassVar[bool] = True

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Sample and vote; see `Strategy`."""
        settings, template = self.settings, policy.template
        sampling = Sampling(settings.temperature, settings.turn_tokens, seed=seed)
        groups = write_turns(
            policy, [(state, ()) for state in conversations], for_turn(sampling, "act", 0), settings.budget
        )
        prepared = []
        for state, turns in zip(conversations, groups, strict=True):
            draft = Draft(state)
            for turn in turns:
                draft.attempted(template, turn)
            prepared.append(draft.preparation(template, vote(template, turns)))
        return prepared


def vote(template: Template, turns: Sequence[Completion]) -> Completion | None:
    """The first of the most frequent legible turns, by calls and words; None when none is legible."""
    texts = []
    for turn in turns:
        message = template.parse_act(turn.ids)
        legible = message.tool_calls or template.is_answer(turn.ids)
        texts.append(act_text(message) if legible else None)
    votes = Counter(text for text in texts if text is not None)
    return turns[texts.index(votes.most_common(1)[0][0])] if votes else None
