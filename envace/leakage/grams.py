"""Looking up the n-grams of training texts among those of the items."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envace.leakage.tokens import Hashes, Numbers, TokenArray

SCREEN = 4
"""Longer n-grams are looked up only where this many tokens in a row are an n-gram of the items."""
_SPARSE, _MOST = 6, 21
"""Bits of a table that is looked up first: so many more than the keys need, so that few entries are set,
but not so many that it leaves the processor's cache."""


class Keys:
    """A set of hashes in which many others are looked up at once."""

    def __init__(self, keys: Hashes) -> None:
        """Take the keys, ascending."""
        self._keys = keys
        bits = min(_MOST, len(keys).bit_length() + _SPARSE)
        self._shift, self._mask = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        self._leading, self._trailing = (np.zeros(1 << bits, np.bool_) for _ in range(2))
        self._leading[keys >> self._shift] = True
        self._trailing[keys & self._mask] = True

    def likely(self, hashes: Hashes) -> Numbers:
        """Places of the hashes that may be keys: all that are, and few others."""
        # Signed indices: numpy would copy unsigned ones.
        likely = np.flatnonzero(self._leading[(hashes >> self._shift).view(np.int64)])
        return likely[self._trailing[(hashes[likely] & self._mask).view(np.int64)]]

    def find(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Places of the hashes that are keys, and the number of each one's key."""
        likely = self.likely(hashes)
        if not len(likely):
            return likely, likely
        keys = np.minimum(np.searchsorted(self._keys, hashes[likely]), len(self._keys) - 1)
        found = self._keys[keys] == hashes[likely]
        return likely[found], keys[found]


class Screen:
    """The places of a text where a longer n-gram of the items can begin at all."""

    def __init__(self, items: TokenArray) -> None:
        """Take the first tokens of every n-gram of the items."""
        self._keys = Keys(np.unique(items.grams(SCREEN)[items.whole(SCREEN)]))

    def places(self, texts: TokenArray) -> Numbers:
        """Those places, ascending."""
        if self not in texts.found:
            texts.found[self] = self._keys.likely(texts.grams(SCREEN))
        places: Numbers = texts.found[self]
        return places


@dataclass(frozen=True)
class Shared:
    """The n-grams that a text has in common with the items."""

    text: int
    """Number of the text."""
    grams: frozenset[int]
    """Numbers of those n-grams in the index."""


class GramIndex:
    """The n-grams of some of the items, each with the places where it stands."""

    def __init__(self, items: TokenArray, n: int, chosen: Sequence[int], screen: Screen) -> None:
        """Index the n-grams of the chosen items, given by number."""
        self.n = n
        self._screen = screen
        places = items.whole(n)
        places = places[np.isin(items.text_at(places), np.asarray(chosen, np.int64))]
        hashes = items.runs(places, n)
        order = np.argsort(hashes, kind="stable")
        places = places[order]
        owners = items.text_at(places)
        keys, first = np.unique(hashes[order], return_index=True)
        self._keys = Keys(keys)
        self._bounds: list[int] = [*first.tolist(), len(places)]
        self._items: list[int] = owners.tolist()
        self._starts: list[int] = (places - items.starts[owners]).tolist()

    def places_of(self, gram: int) -> list[tuple[int, int]]:
        """(item, token) of every place of an n-gram, given by number."""
        begin, end = self._bounds[gram], self._bounds[gram + 1]
        return list(zip(self._items[begin:end], self._starts[begin:end], strict=True))

    def shared(self, texts: TokenArray) -> list[Shared]:
        """The texts that have an n-gram in common with the indexed items, ascending."""
        if self not in texts.found:
            texts.found[self] = self._shared(texts)
        shared: list[Shared] = texts.found[self]
        return shared

    def _shared(self, texts: TokenArray) -> list[Shared]:
        if self.n < SCREEN:
            places, grams = self._keys.find(texts.grams(self.n))
        else:
            screened = self._screen.places(texts)
            screened = screened[screened + self.n <= len(texts)]
            found, grams = self._keys.find(texts.runs(screened, self.n))
            places = screened[found]
        if not len(places):
            return []
        texts_found, first = np.unique(texts.text_at(places), return_index=True)
        parts = np.split(grams, first[1:])
        return [
            Shared(text, frozenset(part.tolist()))
            for text, part in zip(texts_found.tolist(), parts, strict=True)
        ]
