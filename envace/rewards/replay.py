"""Replay reward: the world executes the finished episode's calls and checks the goal.

Grounded, and outside the roll-out: the policy never sees these responses while it acts.
What the committed calls reveal is kept, because the environment role may learn from it.
"""

from collections.abc import Sequence

from envace.chat import PromptedLayout, Template, TokenStream, supervised
from envace.errors import EnvaceError
from envace.rewards.base import Scored, world_verdict
from envace.rollout.episode import Episode
from envace.trajectory import Message, Task
from envace.worlds.tasks import Step


class Replay:
    """1 for success, else 0, of tasks that have an executable world."""

    def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        """Replay every episode.

        Raises:
            EnvaceError: A task has no executable world.
        """
        return [score(episode) for episode in episodes]


def score(episode: Episode) -> Scored:
    """Replay one finished episode."""
    verdict = world_verdict(episode)
    if verdict is None:
        raise EnvaceError(
            f"task {episode.task.id}: no executable world {episode.task.world!r} to replay in",
            "use the checklist or the judge reward",
        )
    parts = {
        "state": float(verdict.state_reached),
        "answer": float(verdict.answer_right),
        "grounded": float(verdict.grounded),
    }
    return Scored(episode, float(verdict.success), parts, verdict)


def revealed_streams(
    task: Task, steps: Sequence[Step], template: Template, layout: PromptedLayout | None = None
) -> list[TokenStream]:
    """Calls with the responses the world gave: environment loss on the responses only.

    No memory is in front: this is the context in which the environment role predicts. For a
    commit-once task, `steps` may be several commits, each from the start state.
    """
    messages = list(task.messages)
    for step in steps:
        messages.append(Message(role="assistant", tool_calls=(step.call,), trainable=False))
        messages.append(Message(role="tool", name=step.call.name, content=step.response, author="world"))
    return supervised(template, messages, task.tools, layout)
