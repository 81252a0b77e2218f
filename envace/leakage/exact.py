"""Equality of the normalized text: an item is a user turn, or all the user turns, of a trajectory."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from envace.leakage.material import Chunk, Finder, Hit, Items


class Exact(Finder):
    """Finds items whose tokens equal those of a whole question or of one turn of it.

    Args:
        items: All items.
        only: Numbers of the items to look for; all when None.
    """

    def __init__(self, items: Items, only: Sequence[int] | None = None) -> None:
        self._wanted: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for item in range(len(items.tokens)) if only is None else only:
            if items.tokens[item]:
                self._wanted[tuple(items.tokens[item])].append(item)
        # Nearly every text is told apart from all items by this much, without hashing it whole.
        self._shapes = set(map(_shape, self._wanted))

    def feed(self, chunk: Chunk) -> list[Hit]:
        found: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for text, turns in enumerate(chunk.turns):
            parts = [turn for turn in turns if turn and _shape(turn) in self._shapes]
            if len(turns) > 1 and _shape(whole := list(chain.from_iterable(turns))) in self._shapes:
                parts.append(whole)
            for tokens in set(map(tuple, parts)) & self._wanted.keys():
                found[tokens].append(text)
        return [
            Hit(item, chunk.owners_of(texts), 1.0)
            for tokens, texts in found.items()
            for item in self._wanted[tokens]
        ]


def _shape(tokens: Sequence[int]) -> tuple[int, ...]:
    return len(tokens), *tokens[:1], *tokens[-1:]
