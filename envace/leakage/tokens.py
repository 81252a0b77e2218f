"""Many texts as one array of 64-bit token hashes, so that tokens and runs of them are hashed all at once.

A run of values v is hashed as the sum of v[i] * B^i, taken from sums over the whole array (Karp and
Rabin's fingerprint, modulo 2^64): of the bytes of a token first, then of the tokens of an n-gram or a
turn. Two that differ share a hash with a probability of about 2^-60; over 10^8 training n-grams and
10^6 of items that is one false pair in 10,000 checks.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from envace.leakage.text import words

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

_BASE = 0x9E3779B97F4A7C13
"""Odd, so that it has an inverse, and 3 modulo 8, which keeps its powers apart."""
_WORDS = bytes(ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else 32 for code in range(256))
"""Lower-case letters and digits as they are, spaces for everything else: ASCII words without a regular
expression."""
_GAP = b"\0"
"""Stands behind every text. No word has a NUL, so no n-gram of an item holds it."""
_BYTES: Hashes = np.random.default_rng(0).integers(0, 1 << 64, 256, np.uint64, endpoint=False)
"""What each byte counts as."""
_BLOCK = 1 << 18
"""Bytes of text hashed at once: what is computed for each byte stays in the processor's cache."""


def spelled(source: str) -> bytes:
    """The words of `text.words` in UTF-8, between spaces."""
    if source.isascii():
        return source.encode().translate(_WORDS)
    return " ".join(words(source)).encode()


class TokenArray:
    """Texts behind one another, turn by turn, each text with a gap behind it."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        """Lay out texts given by their turns."""
        parts = [part for turns in texts for part in (*map(spelled, turns), _GAP)]
        tokens, counts = zip(*map(_tokens, _blocks(parts)), strict=True) if parts else ((), ())
        self._tokens: Hashes = np.concatenate([np.zeros(0, np.uint64), *tokens])
        lengths = np.concatenate([np.zeros(0, np.int64), *counts])
        starts = np.cumsum(lengths) - lengths
        turns = np.fromiter(map(len, texts), np.int64, len(texts))
        gaps = np.cumsum(turns + 1) - 1
        self.starts: Numbers = starts[gaps - turns]
        """Place of every text's first token."""
        self.lengths: Numbers = starts[gaps] - self.starts
        """Tokens of every text."""
        kept = np.ones(len(parts), np.bool_)
        kept[gaps] = False
        self.turn_starts: Numbers = starts[kept]
        """Place of every turn's first token."""
        self.turn_lengths: Numbers = lengths[kept]
        """Tokens of every turn."""
        self.turn_texts: Numbers = np.repeat(np.arange(len(texts)), turns)
        """Number of the text of every turn."""
        self._owners: Numbers = np.repeat(np.arange(len(texts)), self.lengths + 1)
        self._sums = _sums(self._tokens)
        self.found: dict[Any, Any] = {}
        """What indexes found here: two methods may ask the same one."""

    def runs(self, starts: Numbers, lengths: Numbers | int) -> Hashes:
        """Hash of the tokens from each start on."""
        return (self._sums[starts + lengths] - self._sums[starts]) * _powers(len(self._sums))[1][starts]

    def grams(self, n: int) -> Hashes:
        """Hash of the n-gram that begins at every place, those that hold a gap included."""
        count = max(0, len(self._tokens) - n + 1)
        return (self._sums[n : n + count] - self._sums[:count]) * _powers(len(self._sums))[1][:count]

    def __len__(self) -> int:
        """Number of places."""
        return len(self._tokens)

    def text_at(self, places: Numbers) -> Numbers:
        """Number of the text that holds each place."""
        return self._owners[places]

    def whole(self, n: int) -> Numbers:
        """Places whose n-gram lies within one text."""
        places = np.arange(max(0, len(self) - n + 1))
        text = self.text_at(places)
        return places[places + n <= self.starts[text] + self.lengths[text]]


def _blocks(parts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    begin = room = 0
    for end, part in enumerate(parts):
        if room + len(part) > _BLOCK and end > begin:
            yield parts[begin:end]
            begin, room = end, 0
        room += len(part) + 1
    yield parts[begin:]


def _tokens(parts: Sequence[bytes]) -> tuple[Hashes, Numbers]:
    """Hash of every token, and the number of tokens of every part."""
    flat = np.frombuffer(b" " + b" ".join(parts) + b" ", np.uint8)
    inside = flat != 32
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    sums = _sums(_BYTES[flat])
    tokens = (sums[ends] - sums[starts]) * _powers(len(sums))[1][starts]
    # The low bits of such a sum hardly know the order of the bytes.
    tokens ^= tokens >> np.uint64(32)
    tokens *= np.uint64(0xD6E8FEB86659FD93)
    tokens ^= tokens >> np.uint64(32)
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    borders = np.searchsorted(starts, np.concatenate([[0], np.cumsum(sizes + 1)]) + 1)
    return tokens, np.diff(borders)


def _sums(values: Hashes) -> Hashes:
    """Sums of v[i] * B^i over the values before every place."""
    sums = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values * _powers(len(sums))[0][: len(values)], out=sums[1:])
    return sums


def _powers(count: int) -> tuple[Hashes, Hashes]:
    """Powers of the base and of its inverse, at least `count` of each."""
    return _all_powers(1 << max(16, (count - 1).bit_length()))


@lru_cache(maxsize=8)
def _all_powers(count: int) -> tuple[Hashes, Hashes]:
    first, second = (np.full(count, base, np.uint64) for base in (_BASE, pow(_BASE, -1, 1 << 64)))
    for powers in (first, second):
        powers[0] = 1
        np.multiply.accumulate(powers, out=powers)
    return first, second
