"""Equality of the normalized text: an item is a user turn, or all the user turns, of a trajectory."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from envace.leakage.grams import Keys
from envace.leakage.material import Chunk, Finder, Hit, Items


class Exact(Finder):
    """Finds items whose tokens equal those of a whole question or of one turn of it.

    Args:
        items: All items.
        only: Numbers of the items to look for; all when None.
    """

    def __init__(self, items: Items, only: Sequence[int] | None = None) -> None:
        array = items.array
        wanted = np.arange(len(items.records)) if only is None else np.asarray(only, np.int64)
        wanted = wanted[array.lengths[wanted] > 0]
        keys, numbers = np.unique(
            array.runs(array.starts[wanted], array.lengths[wanted]), return_inverse=True
        )
        self._keys = Keys(keys)
        self._items: dict[int, list[int]] = defaultdict(list)
        for item, number in zip(wanted.tolist(), numbers.tolist(), strict=True):
            self._items[number].append(item)

    def feed(self, chunk: Chunk) -> list[Hit]:
        array = chunk.array
        lengths = np.concatenate([array.turn_lengths, array.lengths])
        starts = np.concatenate([array.turn_starts, array.starts])
        texts = np.concatenate([array.turn_texts, np.arange(len(array.lengths))])
        # No item is empty; but the hash of nothing might be looked up all the same.
        said = np.flatnonzero(lengths)
        places, numbers = self._keys.find(array.runs(starts[said], lengths[said]))
        found: dict[int, set[int]] = defaultdict(set)
        for number, text in zip(numbers.tolist(), texts[said[places]].tolist(), strict=True):
            found[number].add(text)
        return [
            Hit(item, chunk.owners_of(sorted(same)), 1.0)
            for number, same in found.items()
            for item in self._items[number]
        ]
