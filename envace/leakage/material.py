"""Both sides of a comparison: the items, tokenized once, and the training data, a chunk at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envace.leakage.grams import GramIndex, Screen
from envace.leakage.records import EvalItem
from envace.leakage.tokens import TokenArray
from envace.trajectory import Trajectory


class Items:
    """Evaluation items of any number of sets."""

    def __init__(self, records: Sequence[EvalItem]) -> None:
        self.records = records
        """The items; a method names an item by its place here."""
        self.array = TokenArray([(item.text,) for item in records])
        """Their texts in one array."""
        self.lengths: list[int] = self.array.lengths.tolist()
        """Tokens of every item's text."""
        self._screen = Screen(self.array)
        self._indexes: dict[tuple[int, tuple[int, ...]], GramIndex] = {}

    def index(self, n: int, chosen: Sequence[int]) -> GramIndex:
        """The n-grams of the chosen items; methods that ask for the same share it."""
        key = n, tuple(chosen)
        if key not in self._indexes:
            self._indexes[key] = GramIndex(self.array, n, chosen, self._screen)
        return self._indexes[key]


class Chunk:
    """Some of the training data, in which equal texts are counted once: generated data repeats them."""

    def __init__(self, train: Sequence[Trajectory]) -> None:
        owners: dict[tuple[str, ...], list[int]] = {}
        for index, trajectory in enumerate(train):
            owners.setdefault(asked(trajectory), []).append(index)
        self.train = train
        """The trajectories; a hit names one by its place here."""
        self.texts = list(owners)
        """Distinct questions, turn by turn, in order of appearance."""
        self.owners = [tuple(found) for found in owners.values()]
        """For every distinct text, the trajectories that have it, ascending."""
        self.array = TokenArray(self.texts)
        """The texts in one array."""

    def owners_of(self, texts: Sequence[int]) -> tuple[int, ...]:
        """All trajectories with one of these texts, ascending."""
        return tuple(sorted(owner for text in texts for owner in self.owners[text]))


@dataclass(frozen=True)
class Hit:
    """One item and trajectories that match it equally well."""

    item: int
    """Number of the item."""
    train: tuple[int, ...]
    """Numbers of the trajectories in their chunk, ascending."""
    score: float
    """Strength in (0, 1]; see `Match.score`."""
    detail: str = ""
    """What agreed, for methods that do not compare text."""


@dataclass(frozen=True)
class Found:
    """An item, and the one trajectory of all the data that matches it best."""

    item: int
    """Number of the item."""
    train_id: str
    """Id of the trajectory."""
    train_text: str
    """What was asked in it."""
    score: float
    """See `Hit`."""
    detail: str = ""
    """See `Hit`."""
    others: int = 0
    """Further trajectories that match the item."""


class Finder:
    """A leakage method at work on one data set: it is made from the items and fed chunk by chunk.

    Chunks may be fed to equal finders in several processes, and what those learned to one more.
    """

    def feed(self, chunk: Chunk) -> list[Hit]:
        """All pairs of an item and trajectories of this chunk that match."""
        return []

    def learned(self) -> Any:
        """What `finish` needs to know of the chunks fed since the last call: plain values, to be sent on."""
        return None

    def learn(self, learned: Any) -> None:
        """Take in what a finder of the same kind, which was fed, learned."""

    def finish(self) -> list[Found]:
        """What only the whole data shows, after the last chunk."""
        return []

    def notes(self) -> list[str]:
        """What it could not check, and what it saw of a set as a whole, in a line each."""
        return []


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


def joined(turns: Sequence[str]) -> str:
    """The turns of a question as one text."""
    return "\n".join(turns)
