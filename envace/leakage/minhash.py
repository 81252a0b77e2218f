"""Near-duplicate texts: MinHash proposes, the exact Jaccard of 5-gram sets decides.

Texts and items of fewer than five tokens have no 5-gram; where they are equal, `exact` says so.
"""

from collections.abc import Sequence

import numpy as np

from envace.leakage.material import Chunk, Finder, Hit, Items
from envace.leakage.tokens import TokenArray

SIZE = 5
"""Tokens of a shingle."""
PERMUTATIONS = 128
BANDS = 32
"""Four rows a band: at Jaccard 0.8, 1 - (1 - 0.8^4)^32 > 0.9999999 of the pairs become candidates."""
SEED = 7


def shingles(array: TokenArray, text: int) -> set[int]:
    """The set of 5-grams of a text, as hashes; empty for a shorter text."""
    begin, length = int(array.starts[text]), int(array.lengths[text])
    return set(array.runs(np.arange(begin, begin + length - SIZE + 1), SIZE).tolist())


def sketches(sets: Sequence[set[int]]) -> list:
    """MinHash sketches of sets of hashes."""
    from rensa import RMinHash

    return RMinHash.from_token_sets([list(map(str, found)) for found in sets], PERMUTATIONS, SEED)


class MinHash(Finder):
    """Finds pairs of item and training text whose shingle sets have a Jaccard of at least `threshold`.

    A text of which fewer than that share of the shingles occurs in any item at all cannot match, and is
    not sketched: in clean data that is all of it.
    """

    def __init__(self, items: Items, threshold: float = 0.8) -> None:
        from rensa import RMinHashLSH

        self._threshold = threshold
        self._items = [item for item, length in enumerate(items.lengths) if length >= SIZE]
        self._sets = [shingles(items.array, item) for item in self._items]
        self._grams = items.index(SIZE, self._items)
        self._index = RMinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, num_bands=BANDS)
        if self._sets:
            self._index.insert_many(sketches(self._sets))

    def feed(self, chunk: Chunk) -> list[Hit]:
        texts, sets = [], []
        for shared in self._grams.shared(chunk.array):
            theirs = shingles(chunk.array, shared.text)
            if len(shared.grams) >= self._threshold * len(theirs):
                texts.append(shared.text)
                sets.append(theirs)
        if not texts:
            return []
        hits = []
        for text, theirs, candidates in zip(texts, sets, self._index.query_all(sketches(sets)), strict=True):
            for candidate in candidates:
                common = len(self._sets[candidate] & theirs)
                jaccard = common / (len(self._sets[candidate]) + len(theirs) - common)
                if jaccard >= self._threshold:
                    hits.append(Hit(self._items[candidate], chunk.owners[text], jaccard))
        return hits
