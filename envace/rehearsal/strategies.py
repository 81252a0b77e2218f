"""Rehearsal strategies by name, each with its budget: what a policy does in private before it commits.

`parallel-4` is the strategy `parallel` with a budget of 4, `parallel-4+policy` the same with a memory
that the policy writes itself. A new strategy is one file and one line in `STRATEGIES`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from envace.contact import counted
from envace.errors import EnvaceError
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings, Strategy
from envace.rehearsal.best_of_n import BestOfN
from envace.rehearsal.memories import MEMORIES
from envace.rehearsal.none import NoRehearsal
from envace.rehearsal.parallel import Parallel
from envace.rehearsal.react import React
from envace.rehearsal.reflexion import Reflexion
from envace.rehearsal.sequential import Sequential
from envace.rehearsal.stepwise import Stepwise

STRATEGIES: dict[str, Callable[[Settings], Strategy]] = {
    "none": NoRehearsal,
    "parallel": Parallel,
    "sequential": Sequential,
    "stepwise": Stepwise,
    "best_of_n": BestOfN,
    "react": React,
    "reflexion": Reflexion,
}
"""Makers of strategies; the last three rehearse nothing and are controls."""


@dataclass(frozen=True)
class Named:
    """A strategy under its full name, every contact with an environment counted and refused."""

    name: str
    """Strategy, budget and memory, as in `parallel-4` or `parallel-4+policy`."""
    inner: Strategy
    """The strategy."""
    budget: int
    """How much it rehearses."""

    @property
    def every_turn(self) -> bool:
        """Whether an evaluation prepares before each act turn."""
        return self.inner.every_turn

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Prepare the next act turn of every conversation; see `Strategy`.

        Raises:
            EnvaceError: A world executed a call meanwhile: that was no rehearsal.
        """
        with counted() as contact:
            prepared = self.inner.prepare(policy, conversations, seed)
        if contact.calls:
            raise EnvaceError(
                f"strategy {self.name}: {contact.calls} calls reached an environment in a private rehearsal",
                "a strategy may use the policy it is given and nothing else",
            )
        noted = {"strategy": self.name, "environment_calls": contact.calls}
        return [replace(item, trace=item.trace.model_copy(update=noted)) for item in prepared]


def strategy(name: str, settings: Settings | None = None) -> Named:
    """The strategy of that name.

    Args:
        name: `NAME`, `NAME-BUDGET`, `NAME+MEMORY` or `NAME-BUDGET+MEMORY`.
        settings: What the name does not say.

    Raises:
        EnvaceError: There is no such strategy or memory, or the budget is 0.
    """
    stem, _, memory = name.partition("+")
    kind, budget = stem, ""
    if found := re.fullmatch(r"(.+)-(\d{1,9})", stem):
        kind, budget = found.groups()
    if kind not in STRATEGIES:
        raise EnvaceError(f"no rehearsal strategy {name!r}", f"one of {', '.join(STRATEGIES)}")
    settings = settings or Settings()
    settings = replace(settings, budget=int(budget or settings.budget), memory=memory or settings.memory)
    if settings.memory not in MEMORIES:
        raise EnvaceError(f"{name}: no memory {settings.memory!r}", f"one of {', '.join(MEMORIES)}")
    if settings.budget < 1:
        raise EnvaceError(f"{name}: a budget of {settings.budget}", "at least 1, or `none`")
    full = "none" if kind == "none" else f"{kind}-{settings.budget}"
    return Named(full + (f"+{memory}" if memory else ""), STRATEGIES[kind](settings), settings.budget)
