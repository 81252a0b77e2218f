"""A stateful rule: of conversations that say nearly the same, only the first is kept.

MinHash proposes, the exact Jaccard of the sets of token 5-grams decides, as in the leakage check. A
conversation kept takes about 12 bytes a shingle and 2 kB more: 2-3 GB for a million.
"""

import numpy as np

from envace.filters.funnel import Rule
from envace.leakage.minhash import BANDS, PERMUTATIONS, shingles, sketches
from envace.leakage.tokens import Hashes, TokenArray
from envace.trajectory import Trajectory


def near_duplicates(threshold: float = 0.9) -> Rule:
    """A rule that refuses a conversation of a Jaccard of at least `threshold` with one it let through.

    Compared are all turns and calls, but for private memories; where it matters that two conversations
    differ in a single number, the threshold must be high. Conversations of fewer than five tokens pass.

    Args:
        threshold: Jaccard of the sets of 5-grams, inclusive.
    """
    from rensa import RMinHashLSH

    index = RMinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, num_bands=BANDS)
    kept: list[tuple[str, Hashes]] = []

    def rule(trajectory: Trajectory) -> str | None:
        ours = shingles(TokenArray([(_said(trajectory),)]), 0)
        if not ours:
            return None
        (sketch,) = sketches([ours])
        mine = np.fromiter(sorted(ours), np.uint64, len(ours))
        for candidate in sorted(index.query(sketch)):
            id_, theirs = kept[candidate]
            common = len(np.intersect1d(mine, theirs, assume_unique=True))
            jaccard = common / (len(mine) + len(theirs) - common)
            if jaccard >= threshold:
                return f"{jaccard:.0%} the same as {id_}"
        index.insert(len(kept), sketch)
        kept.append((trajectory.id, mine))
        return None

    return rule


def _said(trajectory: Trajectory) -> str:
    turns = [message for message in trajectory.messages if message.name != "memory"]
    return "\n".join(part for turn in turns for part in (turn.content, *(c.text() for c in turn.tool_calls)))
