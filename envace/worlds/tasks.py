"""Tasks of the executable worlds: posing them, solving them by the expert, verifying an episode."""

from dataclasses import dataclass

from envace.trajectory import ChecklistItem, Message, Task, ToolCall, compact
from envace.worlds import world as world_named
from envace.worlds.base import Goal, Split, World, start
from envace.worlds.names import PoolLabel, pool

CHECKLIST = (
    ChecklistItem(
        id="state", kind="goal_state", question="Is the world in the goal state?", weight=0.4,
        focus_on="assistant.tool_calls",
    ),
    ChecklistItem(
        id="answer", kind="answer", question="Is the final answer the expected one?", weight=0.4,
        focus_on="assistant.content.user_visible_reply",
    ),
    ChecklistItem(
        id="grounded", kind="call", question="Was the tool called that knows the answer?", weight=0.2,
        focus_on="assistant.tool_calls",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One executed call."""

    call: ToolCall
    """The call."""
    response: str
    """The world's response as compact JSON."""


@dataclass(frozen=True)
class Verdict:
    """What the world says about a finished episode."""

    state_reached: bool
    """The goal state equals the expert's."""
    answer_right: bool
    """The final answer equals the expert's."""
    grounded: bool
    """A call of the expert was made: an answer read off the prompt rests on no response."""
    steps: tuple[Step, ...]
    """The episode's calls with the responses that the world revealed."""

    @property
    def success(self) -> bool:
        """All checklist items hold."""
        return self.state_reached and self.answer_right and self.grounded


def pose(name: str, template: str, seed: int, names: PoolLabel) -> Task:
    """Build the task of a seed: the printed state as system prompt, the goal as user turn."""
    instance, goal = start(world_named(name), template, pool(names), seed)
    return Task(
        id=f"{name}/{template}/{names}/{seed}",
        world=name,
        template=template,
        seed=seed,
        names=names,
        tools=instance.tools,
        messages=(
            Message(role="system", content=instance.printed()),
            Message(role="user", content=goal.text),
        ),
        checklist=CHECKLIST,
    )


def rebuild(task: Task) -> tuple[World, Goal]:
    """A fresh start state and the goal of a task."""
    return start(world_named(task.world), task.template, pool(task.names), task.seed)


def solve(task: Task) -> tuple[tuple[Step, ...], str, World]:
    """Run the expert: its steps, its answer, and the world it leaves behind."""
    instance, goal = rebuild(task)
    expert = goal.expert()
    steps: list[Step] = []
    try:
        call = next(expert)
        while True:
            response = instance.call(call)
            steps.append(Step(call, compact(response)))
            call = expert.send(response)
    except StopIteration as finished:
        return tuple(steps), finished.value, instance


def verify(task: Task, calls: list[ToolCall], answer: str | None) -> Verdict:
    """Replay an episode's calls in a fresh world and compare with the expert (grounded reward).

    Args:
        task: The task that the episode attempted.
        calls: Its calls in order.
        answer: Its final answer, or None when the episode ended without one.
    """
    expert_steps, expected, goal_world = solve(task)
    instance, _ = rebuild(task)
    steps = tuple(Step(call, compact(instance.call(call))) for call in calls)
    return Verdict(
        state_reached=instance.state() == goal_world.state(),
        answer_right=answer == expected,
        grounded=any(step in expert_steps for step in steps),
        steps=steps,
    )


def templates(name: str, *splits: Split) -> list[str]:
    """Templates of a world that belong to the given splits."""
    return [template for template, split in world_named(name).templates.items() if split in splits]
