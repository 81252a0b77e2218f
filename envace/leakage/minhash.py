"""Near-duplicate texts: MinHash proposes, the exact Jaccard of 5-gram sets decides."""

from envace.leakage.material import Hit, Material
from envace.leakage.ngram import grams

PERMUTATIONS = 128
BANDS = 32
"""Four rows a band: at Jaccard 0.8, 1 - (1 - 0.8^4)^32 > 0.9999999 of the pairs become candidates."""
SEED = 7


def shingles(tokens: tuple[str, ...], size: int = 5) -> set[str]:
    """The set of token 5-grams; a shorter text is one shingle."""
    return {" ".join(gram) for gram in grams(tokens, min(size, len(tokens)))} if tokens else set()


def find(material: Material, threshold: float = 0.8) -> list[Hit]:
    """Pairs of item and training text whose shingle sets have a Jaccard of at least `threshold`."""
    from rensa import RMinHash, RMinHashLSH

    items = [(item, shingles(text.tokens)) for item, text in enumerate(material.item_texts) if text.tokens]
    train = [
        (number, shingles(text.tokens)) for number, text in enumerate(material.train_texts) if text.tokens
    ]
    if not items or not train:
        return []
    index = RMinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, num_bands=BANDS)
    index.insert_many(RMinHash.from_token_sets([grams for _, grams in items], PERMUTATIONS, SEED))
    sketches = RMinHash.from_token_sets([grams for _, grams in train], PERMUTATIONS, SEED)
    hits = []
    for (number, theirs), candidates in zip(train, index.query_all(sketches), strict=True):
        for candidate in candidates:
            item, ours = items[candidate]
            common = len(ours & theirs)
            jaccard = common / (len(ours) + len(theirs) - common)
            if jaccard >= threshold:
                hits.append(Hit(item, material.owners[number], jaccard))
    return hits
