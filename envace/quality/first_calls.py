"""What the gate knows of the act role: whether the world carries out what the policy calls first.

Where one call decides, a refused one reveals nothing that could be observed: a policy whose calls
are refused cannot learn such a world, however well it knows the others.
"""

from typing import Literal

from envace.quality.rehearsal import decoded, is_error
from envace.trajectory.records import Record, Task, ToolCall


class FirstCall(Record):
    """What a policy called first in one held-out task of a commit-once world."""

    policy: Literal["warmup", "trained"]
    """Which checkpoint acted."""
    world: str
    """The world."""
    task_id: str
    """The task."""
    call: str
    """The call as compact JSON; empty when there was none."""
    response: str
    """What the world returned; empty when it was not called."""
    accepted: bool
    """The world carried the call out: its response is no error object."""


def first_call(
    policy: Literal["warmup", "trained"], task: Task, call: ToolCall | None, response: str = ""
) -> FirstCall:
    """Judge a first call.

    Args:
        policy: Who acted.
        task: The task.
        call: Its first call; None when it made none.
        response: What the world returned.
    """
    return FirstCall(
        policy=policy,
        world=task.world,
        task_id=task.id,
        call=call.text() if call else "",
        response=response,
        accepted=call is not None and not is_error(decoded(response)),
    )
