"""Whether the splits of the executable worlds are what they claim: nothing held out crosses into training.

A task claims that its template is held out when its world says so, that its names are when it draws from
the held-out pool, and that its tools are when its world occurs nowhere in training.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from envace.leakage.schema import canonical_schema
from envace.trajectory import Message, Task, Tool, Trajectory
from envace.trajectory.records import Record
from envace.worlds import WORLDS
from envace.worlds.names import pool

_NAME = re.compile(r"[a-z]+")


class Crossing(Record):
    """Something held out that a training trajectory has."""

    kind: Literal["task", "template", "entity", "schema"]
    """What crossed."""
    what: str
    """Which one."""
    train_id: str
    """The first trajectory that has it."""


def crossings(train: Iterable[Trajectory], held_out: Sequence[Task]) -> list[Crossing]:
    """All that crosses, each named once with the first trajectory that has it.

    Args:
        train: Trajectories for training or validation.
        held_out: Tasks for testing.
    """
    tasks = {task.id for task in held_out}
    templates = {
        f"{task.world}/{task.template}"
        for task in held_out
        if WORLDS[task.world].templates.get(task.template) == "held_out"
    }
    names = set(pool("held_out").names) if any(task.names == "held_out" for task in held_out) else set()
    worlds: set[str] = set()
    schemas: dict[str, str] = {}
    found: dict[tuple[str, str], Crossing] = {}

    def crossed(kind: Literal["task", "template", "entity", "schema"], what: str, id: str) -> None:
        found.setdefault((kind, what), Crossing(kind=kind, what=what, train_id=id))

    for trajectory in train:
        worlds.add(trajectory.world)
        if trajectory.lineage.task_id in tasks:
            crossed("task", trajectory.lineage.task_id, trajectory.id)
        template = f"{trajectory.world}/{trajectory.lineage.template}"
        if template in templates:
            crossed("template", template, trajectory.id)
        # Elsewhere such a word is no entity: "same" and "done" are names of the worlds as well.
        for name in _words(trajectory.messages) & names if trajectory.world in WORLDS else ():
            crossed("entity", name, trajectory.id)
        for tool in trajectory.tools:
            schemas.setdefault(_signature(tool), trajectory.id)
    for task in held_out:
        for tool in task.tools if task.world not in worlds else ():
            if _signature(tool) in schemas:
                crossed("schema", f"{task.world}.{tool.name}", schemas[_signature(tool)])
    return list(found.values())


def _words(messages: Sequence[Message]) -> set[str]:
    return {word for text in _texts(messages) for word in _NAME.findall(text)}


def _texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        yield message.content
        yield from (call.text() for call in message.tool_calls)


def _signature(tool: Tool) -> str:
    return f"{tool.name} {canonical_schema(tool.parameters)}"
