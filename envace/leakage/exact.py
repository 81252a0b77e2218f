"""Equality of the normalized text: an item is a user turn, or all the user turns, of a trajectory."""

from collections import defaultdict
from collections.abc import Container

from envace.leakage.material import Hit, Material, asked
from envace.leakage.text import tokenize


def find(material: Material, only: Container[int] | None = None) -> list[Hit]:
    """Items whose tokens equal those of a whole user text or of one user turn.

    Args:
        material: Both sides.
        only: Item indices to look for; all when None.
    """
    wanted: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for item, text in enumerate(material.item_texts):
        if text.tokens and (only is None or item in only):
            wanted[text.tokens].append(item)
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, text in enumerate(material.train_texts):
        turns = asked(material.train[material.owners[number][0]])
        parts = {text.tokens} | ({tokenize(turn).tokens for turn in turns} if len(turns) > 1 else set())
        for tokens in parts & wanted.keys():
            found[tokens].append(number)
    return [
        Hit(item, material.owners_of(texts), 1.0)
        for tokens, texts in found.items()
        for item in wanted[tokens]
    ]
