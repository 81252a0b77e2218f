"""Many texts as one array of 64-bit token hashes, so that their n-grams are looked up all at once.

Tokens and n-grams are compared by their hashes. Two that differ share one with a probability of
about 2^-60; over 10^8 training n-grams and 10^6 of items that is one false pair in 10,000 checks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from envace.leakage.text import words

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_WORDS = bytes(ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else 32 for code in range(256))
"""Lower-case letters and digits as they are, spaces for everything else: ASCII words without a regular
expression, in a third of the time."""
_GAP = hash(b"\0 between two texts \0")
"""Stands behind every text. No token has a NUL, so no n-gram of an item holds it."""
_SPARSE, _MOST = 6, 21
"""Bits of a table that is looked up first: so many more than the n-grams need, so that few entries are set,
but not so many that it leaves the processor's cache."""


def token_hashes(source: str) -> list[int]:
    """One hash for every token of `text.words`, of its UTF-8 bytes.

    Python salts hashes anew in each process: they must never be stored.
    """
    if source.isascii():
        return list(map(hash, source.encode().translate(_WORDS).split()))
    return [hash(word.encode()) for word in words(source)]


class TokenArray:
    """Texts behind one another, each with a gap behind it."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        """Lay out texts given by their token hashes."""
        flat: list[int] = []
        for text in texts:
            flat += text
            flat.append(_GAP)
        self.lengths: Numbers = np.fromiter(map(len, texts), np.int64, len(texts))
        self.starts: Numbers = np.cumsum(self.lengths + 1) - self.lengths - 1
        self._tokens: Hashes = np.array(flat, np.int64).view(np.uint64)
        self._grams: dict[int, Hashes] = {1: self._tokens}

    def grams(self, n: int) -> Hashes:
        """Hash of the n-gram that begins at every place, those that hold a gap included."""
        if n not in self._grams:
            shorter = self.grams(n - 1)
            self._grams[n] = shorter[:-1] * _FACTOR + self._tokens[n - 1 :]
        return self._grams[n]

    def text_at(self, places: Numbers) -> Numbers:
        """Number of the text that holds each place."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def whole(self, n: int) -> Numbers:
        """Places whose n-gram lies within one text."""
        places = np.arange(len(self.grams(n)))
        text = self.text_at(places)
        return places[places + n <= self.starts[text] + self.lengths[text]]


@dataclass(frozen=True)
class Shared:
    """The n-grams that a text has in common with the items."""

    text: int
    """Number of the text."""
    grams: frozenset[int]
    """Numbers of those n-grams in the index."""


class GramIndex:
    """The n-grams of some of the items, each with the places where it stands."""

    def __init__(self, items: TokenArray, n: int, chosen: Sequence[int]) -> None:
        """Index the n-grams of the chosen items, given by number."""
        self.n = n
        places = items.whole(n)
        places = places[np.isin(items.text_at(places), np.asarray(chosen, np.int64))]
        places = places[np.argsort(items.grams(n)[places], kind="stable")]
        owners = items.text_at(places)
        self._keys, first = np.unique(items.grams(n)[places], return_index=True)
        self._bounds: list[int] = [*first.tolist(), len(places)]
        self._items: list[int] = owners.tolist()
        self._starts: list[int] = (places - items.starts[owners]).tolist()
        bits = min(_MOST, len(self._keys).bit_length() + _SPARSE)
        self._shift, self._mask = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        self._leading, self._trailing = (np.zeros(1 << bits, np.bool_) for _ in range(2))
        self._leading[self._keys >> self._shift] = True
        self._trailing[self._keys & self._mask] = True

    def places_of(self, gram: int) -> list[tuple[int, int]]:
        """(item, token) of every place of an n-gram, given by number."""
        begin, end = self._bounds[gram], self._bounds[gram + 1]
        return list(zip(self._items[begin:end], self._starts[begin:end], strict=True))

    def shared(self, texts: TokenArray) -> list[Shared]:
        """The texts that have an n-gram in common with the indexed items, ascending."""
        hashes = texts.grams(self.n)
        likely = np.flatnonzero(self._leading[hashes >> self._shift])
        likely = likely[self._trailing[hashes[likely] & self._mask]]
        if not len(likely):
            return []
        grams = np.minimum(np.searchsorted(self._keys, hashes[likely]), len(self._keys) - 1)
        found = self._keys[grams] == hashes[likely]
        owners, grams = texts.text_at(likely[found]), grams[found]
        texts_found, first = np.unique(owners, return_index=True)
        parts = np.split(grams, first[1:])
        return [
            Shared(text, frozenset(part.tolist()))
            for text, part in zip(texts_found.tolist(), parts, strict=False)
        ]
