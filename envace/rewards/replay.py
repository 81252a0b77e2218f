"""Replay reward: the world executes the finished episode's calls and checks the goal.

Grounded, and outside the roll-out: the policy never sees these responses while it acts.
What the committed calls reveal is kept, because the environment role may learn from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from envace.chat import CompactTemplate, TokenStream
from envace.rollout.episode import Episode
from envace.trajectory import Message, Task
from envace.worlds.tasks import Step, Verdict, verify


@dataclass(frozen=True)
class Scored:
    """An episode with the world's verdict."""

    episode: Episode
    """The roll-out."""
    verdict: Verdict
    """Whether the goal was reached, and the revealed responses."""

    @property
    def reward(self) -> float:
        """1 for success, else 0."""
        return float(self.verdict.success)

    def agreement(self) -> list[bool]:
        """For each rehearsed response, whether it equals the revealed one, exactly."""
        return [
            predicted == step.response
            for predicted, step in zip(self.episode.responses, self.verdict.steps, strict=False)
        ]


def score(episode: Episode) -> Scored:
    """Replay one finished episode."""
    return Scored(episode, verify(episode.task, list(episode.calls), episode.answer))


def revealed_stream(task: Task, steps: Sequence[Step], template: CompactTemplate) -> TokenStream:
    """Calls with the responses the world gave: environment loss on the responses only.

    No memory is in front: this is the context in which the environment role predicts. For a
    commit-once task, `steps` may be several commits, each from the start state.
    """
    messages = list(task.messages)
    for step in steps:
        messages.append(Message(role="assistant", tool_calls=(step.call,), trainable=False))
        messages.append(Message(role="tool", name=step.call.name, content=step.response, author="world"))
    return template.render(messages, task.tools)
