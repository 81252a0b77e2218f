"""Random entity names, in disjoint training and held-out pools.

A name is two consonant-vowel syllables; the tokenizer keeps one token a syllable, so a
held-out name is a new combination of known tokens and cannot have been memorized.
"""

import random
from dataclasses import dataclass
from functools import cache
from typing import Literal

CONSONANTS = "bdfgklmnprstvz"
VOWELS = "aeiou"
SYLLABLES = tuple(c + v for c in CONSONANTS for v in VOWELS)
RESERVED = frozenset({"base", "done", "move", "name", "same", "zone"})
"""Words of the worlds' own language that look like names."""
HELD_OUT = 500
"""Names reserved for evaluation, of some 4,900."""

PoolLabel = Literal["train", "held_out"]


@dataclass(frozen=True)
class NamePool:
    """A set of names to draw from."""

    label: PoolLabel
    """Which pool."""
    names: tuple[str, ...]
    """All names of the pool."""

    def draw(self, rng: random.Random, count: int, avoid: tuple[str, ...] = ()) -> list[str]:
        """Draw `count` names no two of which share a syllable in the same place."""
        drawn: list[str] = []
        while len(drawn) < count:
            name = rng.choice(self.names)
            if all(name[:2] != other[:2] and name[2:] != other[2:] for other in (*drawn, *avoid)):
                drawn.append(name)
        return drawn


@cache
def pool(label: PoolLabel) -> NamePool:
    """The pool of that label; the split is fixed for all time."""
    pairs = (first + second for first in SYLLABLES for second in SYLLABLES)
    names = [name for name in pairs if name not in RESERVED]
    random.Random(0).shuffle(names)
    return NamePool(label, tuple(names[:HELD_OUT] if label == "held_out" else names[HELD_OUT:]))
