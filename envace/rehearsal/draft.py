"""A preparation under way: the branches of one conversation, their cost, the memory so far."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest

from envace.chat import Template, TokenRole
from envace.engines import Completion
from envace.rehearsal.base import Conversation, Preparation
from envace.rehearsal.trace import Branch, Imagined, Purpose, Trace
from envace.rollout.episode import Episode
from envace.trajectory import Message, ToolCall


@dataclass(frozen=True)
class Written:
    """A memory."""

    text: str = ""
    """Its text; empty when there is nothing to remember."""
    best: ToolCall | None = None
    """What a reader that only follows the rule would commit."""
    tokens: int = 0
    """Tokens that the policy wrote for it; 0 for a rule."""

    @property
    def notes(self) -> tuple[Message, ...]:
        """What goes into the prompt: nothing at all when nothing was remembered."""
        return (note(self.text),) if self.text else ()


def note(text: str) -> Message:
    """A private message to the act role."""
    return Message(role="system", name="memory", content=text, author="policy")


@dataclass
class Draft:
    """Filled by a strategy, branch by branch."""

    conversation: Conversation
    """Where the rehearsals start."""
    branches: list[Branch] = field(default_factory=list)
    """Rehearsals so far."""
    tokens: Counter[Purpose] = field(default_factory=Counter)
    """Their cost so far."""
    memory: Written = Written()
    """The memory so far."""

    def rehearsed(self, template: Template, episode: Episode) -> None:
        """Add a rehearsed episode, written in view of the memory so far."""
        steps = zip_longest(episode.calls, episode.responses)
        self.branches.append(
            Branch(
                seen=self.memory.text,
                sampled=template.raw(episode.sampled),
                steps=tuple(Imagined(call=call, response=response) for call, response in steps),
                answer=episode.answer,
            )
        )
        parsed = episode.spans[-1].stop if episode.spans else 0
        self.tokens["act"] += episode.tokens(TokenRole.ACT)
        self.tokens["environment"] += episode.tokens(TokenRole.ENV)
        self.tokens["unread"] += len(episode.sampled) - parsed

    def attempted(self, template: Template, turn: Completion, thought: str = "") -> None:
        """Add an act turn without a response, written in view of the memory so far."""
        message = template.parse_act(turn.ids)
        self.branches.append(
            Branch(
                seen=self.memory.text,
                sampled=template.raw(turn.ids),
                steps=tuple(Imagined(call=call) for call in message.tool_calls),
                answer=message.content if template.is_answer(turn.ids) else None,
                thought=thought,
            )
        )
        self.tokens["act"] += len(turn.ids)

    def preparation(self, template: Template, decided: Completion | None = None) -> Preparation:
        """The finished preparation; a turn decided on is no longer a private cost."""
        tokens = Counter(self.tokens)
        if decided is not None:
            tokens["act"] -= len(decided.ids)
        trace = Trace(
            branches=tuple(self.branches),
            memory=self.memory.text,
            recommended=self.memory.best,
            decided=template.parse_act(decided.ids) if decided else None,
            tokens={purpose: count for purpose, count in tokens.items() if count},
        )
        return Preparation(self.memory.notes, decided, trace)
