"""An episode as a conversation by user turns, and the weighted sum of its checklist.

    R = Σ_t Σ_k w_tk · pass_tk / number of turns

The weights of a turn sum to 1, so R is in [0, 1]. A turn that was never reached passes nothing
and still counts in the denominator. Source: the checklist reward of EnvACE (arXiv 2608.06197).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from envace.rollout.episode import Episode
from envace.trajectory import ChecklistItem, Message, ToolCall


@dataclass(frozen=True)
class UserTurn:
    """What the assistant did between one user message and the next."""

    calls: tuple[ToolCall, ...] = ()
    """Calls in order."""
    answer: str | None = None
    """Last text without a call, None when there was none."""


def conversation(episode: Episode) -> list[Message]:
    """The prompt and everything written since, without the private memory.

    Each call is followed by its response, where there is one.
    """
    messages = list(episode.task.messages)
    for index, call in enumerate(episode.calls):
        messages.append(Message(role="assistant", tool_calls=(call,)))
        if index < len(episode.responses):
            messages.append(Message(role="tool", name=call.name, content=episode.responses[index]))
    if episode.answer is not None:
        messages.append(Message(role="assistant", content=episode.answer))
    return messages


def user_turns(messages: Sequence[Message]) -> list[UserTurn]:
    """The turns that were reached, from 0; what precedes the first user message belongs to none."""
    turns: list[UserTurn] = []
    for message in messages:
        if message.role == "user":
            turns.append(UserTurn())
        elif message.role == "assistant" and turns:
            answer = turns[-1].answer if message.tool_calls else message.content
            turns[-1] = UserTurn(turns[-1].calls + message.tool_calls, answer)
    return turns


def weighted(items: Sequence[ChecklistItem], passed: Sequence[bool]) -> float:
    """R of a checklist, in [0, 1].

    Args:
        items: At least one item; the weights of each turn sum to 1.
        passed: Whether each item holds, in the same order; False for turns not reached.
    """
    total = sum(item.weight for item in items)  # the number of turns, and exactly what R = 1 adds up to
    return sum(item.weight for item, held in zip(items, passed, strict=True) if held) / total
