"""n-gram overlap with one training text, by an inverted index (Tülu 3's rule for n = 8).

Source: Tülu 3 (arXiv 2411.15124, decontamination): user turns only; a test item matches when
more than half of its tokens lie in 8-grams shared with one training item. That rule is blind to
an item of fewer than n tokens: here it matches where it stands whole in a training text. One of
fewer than `SHORT` words might be a part of any sentence, so it must stand alone there, between
punctuation marks; and a single word, or some letters, must be the whole turn.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from envace.leakage.exact import Exact
from envace.leakage.grams import GramIndex
from envace.leakage.material import Chunk, Finder, Hit, Items, joined
from envace.leakage.text import stands_alone, word_count, words

SHORT = 5
"""Words from which on an item is looked for anywhere in a text."""
TINY = 4
"""Letters from which on one is looked for inside of a text at all."""


def covered(starts: Iterable[int], n: int) -> int:
    """How many tokens lie in at least one of the n-grams that begin at `starts`."""
    total = 0
    end = 0
    for start in sorted(starts):
        total += start + n - max(start, end)
        end = start + n
    return total


class Ngrams(Finder):
    """Finds items of which one training text covers more than `threshold` by shared n-grams.

    Training texts are grouped by the set of item n-grams they hold, because coverage depends
    on nothing else: texts of one template that differ in names cost one look-up, not thousands.

    Args:
        items: All items.
        n: Tokens of an n-gram.
        threshold: Share of an item's tokens, exclusive.
    """

    def __init__(self, items: Items, n: int, threshold: float) -> None:
        self._n = n
        self._threshold = threshold
        self._lengths = items.lengths
        self._short: dict[int, list[str]] = {}
        self._tiny: list[int] = []
        by_length: dict[int, list[int]] = defaultdict(list)
        for item, length in enumerate(self._lengths):
            tokens = words(items.records[item].text) if 0 < length < n else []
            if tokens and (word_count(tokens) < 2 or sum(map(len, tokens)) < TINY):
                self._tiny.append(item)
                continue
            if tokens and word_count(tokens) < SHORT:
                self._short[item] = tokens
            by_length[min(length, n)].append(item)
        self._whole = Exact(items, self._tiny)
        self._indexes = [
            items.index(length, by_length[length]) for length in range(1, n + 1) if by_length[length]
        ]

    def feed(self, chunk: Chunk) -> list[Hit]:
        hits = self._whole.feed(chunk)
        for index in self._indexes:
            groups: dict[frozenset[int], list[int]] = defaultdict(list)
            for shared in index.shared(chunk.array):
                groups[shared.grams].append(shared.text)
            for grams, texts in groups.items():
                hits += self._covered(index, grams, texts, chunk)
        return hits

    def _covered(
        self, index: GramIndex, grams: frozenset[int], texts: Sequence[int], chunk: Chunk
    ) -> Iterable[Hit]:
        starts: dict[int, list[int]] = defaultdict(list)
        for gram in grams:
            for item, start in index.places_of(gram):
                starts[item].append(start)
        everywhere = chunk.owners_of(texts)
        for item, begun in starts.items():
            if len(begun) * index.n <= self._threshold * self._lengths[item]:
                continue  # not even if none of them overlap
            score = covered(begun, index.n) / self._lengths[item]
            train = everywhere
            if item in self._short:
                train = chunk.owners_of(
                    [text for text in texts if stands_alone(self._short[item], joined(chunk.texts[text]))]
                )
            if score > self._threshold and train:
                yield Hit(item, train, score)

    def notes(self) -> list[str]:
        return [
            f"not checked by {self._n}-grams: {len(items)} item(s) of {what}"
            for items, what in (
                (
                    self._short,
                    f"fewer than {SHORT} words, but where they stand alone between punctuation marks",
                ),
                (self._tiny, "one word or a few letters, but where they are a whole turn"),
            )
            if items
        ]
