"""Both sides of a comparison, tokenized once, with equal training texts counted once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envace.leakage.records import EvalItem
from envace.leakage.text import Text, tokenize
from envace.trajectory import Trajectory


@dataclass(frozen=True)
class Material:
    """Training data and evaluation items, ready for any method."""

    train: Sequence[Trajectory]
    """Training trajectories."""
    items: Sequence[EvalItem]
    """Evaluation items."""
    train_texts: tuple[Text, ...]
    """Distinct questions of the training data, turns joined by newlines, in order of appearance."""
    owners: tuple[tuple[int, ...], ...]
    """For every distinct text, the trajectories that have it, ascending."""
    item_texts: tuple[Text, ...]
    """Text of every item."""

    def owners_of(self, texts: Sequence[int]) -> tuple[int, ...]:
        """All trajectories with one of these texts, ascending."""
        return tuple(sorted(owner for text in texts for owner in self.owners[text]))


@dataclass(frozen=True)
class Hit:
    """One item and trajectories that match it equally well."""

    item: int
    """Index of the item."""
    train: tuple[int, ...]
    """Indices of the trajectories, ascending."""
    score: float
    """Strength in (0, 1]; see `Match.score`."""
    detail: str = ""
    """What agreed, for methods that do not compare text."""


Find = Callable[[Material], list[Hit]]
"""A leakage method: all pairs of item and trajectories that match."""


def asked(trajectory: Trajectory) -> tuple[str, ...]:
    """What was asked, turn by turn.

    In an executable world the printed start state is part of the question: the goals are
    short templates, and the same words about another state are another task.
    """
    asking = ("system", "user") if trajectory.world else ("user",)
    return tuple(
        message.content
        for message in trajectory.messages
        if message.role in asking and message.name != "memory"
    )


def prepare(train: Sequence[Trajectory], items: Sequence[EvalItem]) -> Material:
    """Tokenize both sides; generated data repeats its texts, so equal ones are done once."""
    owners: dict[tuple[str, ...], list[int]] = {}
    for index, trajectory in enumerate(train):
        owners.setdefault(asked(trajectory), []).append(index)
    return Material(
        train=train,
        items=items,
        train_texts=tuple(tokenize("\n".join(turns)) for turns in owners),
        owners=tuple(map(tuple, owners.values())),
        item_texts=tuple(tokenize(item.text) for item in items),
    )
