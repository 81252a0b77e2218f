"""n-gram overlap with one training text, by an exact inverted index (Tülu 3's rule for n = 8).

Source: Tülu 3 (arXiv 2411.15124, decontamination): user turns only; a test item matches when
more than half of its tokens lie in 8-grams shared with one training item.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from envace.leakage import exact
from envace.leakage.material import Hit, Material

Gram = tuple[str, ...]


def grams(tokens: Sequence[str], n: int) -> list[Gram]:
    """All runs of n tokens, in order."""
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def covered(starts: Iterable[int], n: int) -> int:
    """How many tokens lie in at least one of the n-grams that begin at `starts`."""
    total = 0
    end = 0
    for start in sorted(starts):
        total += start + n - max(start, end)
        end = start + n
    return total


def find(material: Material, n: int, threshold: float) -> list[Hit]:
    """Items of which one training text covers more than `threshold` (a share) by shared n-grams.

    Items shorter than n tokens have no n-gram: they match when they equal a user turn.

    Training texts are grouped by the set of item n-grams they hold, because coverage depends
    on nothing else: texts of one template that differ in names cost one look-up, not thousands.
    """
    postings: dict[Gram, list[tuple[int, int]]] = defaultdict(list)
    short: set[int] = set()
    for item, text in enumerate(material.item_texts):
        if len(text.tokens) < n:
            short.add(item)
        for start, gram in enumerate(grams(text.tokens, n)):
            postings[gram].append((item, start))

    groups: dict[frozenset[Gram], list[int]] = defaultdict(list)
    for number, text in enumerate(material.train_texts):
        shared = frozenset(gram for gram in grams(text.tokens, n) if gram in postings)
        if shared:
            groups[shared].append(number)

    hits = exact.find(material, only=short)
    for shared, texts in groups.items():
        starts: dict[int, list[int]] = defaultdict(list)
        for gram in shared:
            for item, start in postings[gram]:
                starts[item].append(start)
        train = material.owners_of(texts)
        for item, begun in starts.items():
            score = covered(begun, n) / len(material.item_texts[item].tokens)
            if score > threshold:
                hits.append(Hit(item, train, score))
    return hits
