"""Rehearsal strategies: what a policy does in private before it commits.

A strategy turns tasks into notes. It is given an engine and nothing else, so it cannot
execute a call; a new one is one function and one line in `STRATEGIES`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envace.chat import Template
from envace.engines import Engine
from envace.errors import EnvaceError
from envace.rehearsal.parallel import rehearse_next_call
from envace.trajectory import Message, Task, ToolCall


@dataclass(frozen=True)
class Preparation:
    """What a strategy hands to the act role for one task."""

    notes: tuple[Message, ...] = ()
    """Private messages put after the prompt."""
    tokens: int = 0
    """Tokens rehearsed for it."""
    recommended: ToolCall | None = None
    """The call the memory's rule ranks first, without the act role's judgment."""


Strategy = Callable[[Engine, Template, Sequence[Task], int, int], list[Preparation]]
"""(engine, template, tasks, branches, seed) → one preparation a task."""


def none(
    engine: Engine, template: Template, tasks: Sequence[Task], branches: int, seed: int
) -> list[Preparation]:
    """Act at once."""
    return [Preparation() for _ in tasks]


def parallel(
    engine: Engine, template: Template, tasks: Sequence[Task], branches: int, seed: int
) -> list[Preparation]:
    """N independent rehearsals of the next call, summarized into a memory."""
    return [
        Preparation(
            notes=rehearsal.memory.notes,
            tokens=sum(len(branch.sampled) for branch in rehearsal.branches),
            recommended=rehearsal.memory.best,
        )
        for rehearsal in rehearse_next_call(engine, template, tasks, branches, seed=seed)
    ]


STRATEGIES: dict[str, Strategy] = {"none": none, "parallel": parallel}


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name not in STRATEGIES:
        raise EnvaceError(f"no rehearsal strategy {name!r}", f"one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
