"""Scores of FinMCP-Bench: pure functions on the names of the tools called in a conversation.

A conversation is a list of groups, the names called in one assistant turn each. Arguments don't count.
Source: FinMCP-Bench (arXiv 2603.24943) and the evaluation that is published with it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from envace.benchmarks.stats import mean

Groups = Sequence[Sequence[str]]
"""Names by assistant turn; what is called in one turn is called in parallel."""


@dataclass(frozen=True)
class Counts:
    """How two multisets of names overlap."""

    hits: int
    """Size of the intersection: names called as often as the reference, or less."""
    extra: int
    """Calls beyond the reference."""
    missed: int
    """Calls of the reference that were not made."""

    @property
    def precision(self) -> float:
        """Share of the calls made that are in the reference (the paper's TP); 0 without calls."""
        return _share(self.hits, self.hits + self.extra)

    @property
    def recall(self) -> float:
        """Share of the reference that was called (the paper's TR); 0 without a reference."""
        return _share(self.hits, self.hits + self.missed)

    @property
    def f1(self) -> float:
        """Harmonic mean of both (the paper's TF1); 0 when both are."""
        return _share(2 * self.precision * self.recall, self.precision + self.recall)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def flat(groups: Groups) -> list[str]:
    """All names in order."""
    return [name for group in groups for name in group]


def overlap(predicted: Groups, gold: Groups) -> Counts:
    """Multiset overlap of a conversation: a name called twice is there twice."""
    made, wanted = Counter(flat(predicted)), Counter(flat(gold))
    return Counts((made & wanted).total(), (made - wanted).total(), (wanted - made).total())


def exact_flat(predicted: Groups, gold: Groups) -> bool:
    """Exact match as the released code has it: the same names in the same order."""
    return flat(predicted) == flat(gold)


def exact_grouped(predicted: Groups, gold: Groups) -> bool:
    """Exact match as the paper describes it: the order inside a parallel group of the reference is free.

    The names called are cut where the reference's groups end, and each part is compared as a multiset, so
    that calls made one by one match a parallel group too. Whatever matches flat matches here.
    """
    names, start = flat(predicted), 0
    for group in gold:
        if Counter(names[start : start + len(group)]) != Counter(group):
            return False
        start += len(group)
    return start == len(names)


def measures(pairs: Sequence[tuple[Groups, Groups]]) -> dict[str, float]:
    """Every score over a set of conversations.

    Args:
        pairs: Predicted and reference groups of each conversation; at least one.

    Returns:
        `tp`, `tr`, `tf1` micro-averaged (counts summed first), `emr_flat`, `emr_grouped`, and `macro_tp`,
        `macro_tr`, `macro_tf1` (means over conversations); each in [0, 1].
    """
    counts = [overlap(*pair) for pair in pairs]
    total = Counts(*(sum(getattr(c, part) for c in counts) for part in ("hits", "extra", "missed")))
    return {
        "tp": total.precision,
        "tr": total.recall,
        "tf1": total.f1,
        "emr_flat": mean([float(exact_flat(*pair)) for pair in pairs]),
        "emr_grouped": mean([float(exact_grouped(*pair)) for pair in pairs]),
        "macro_tp": mean([c.precision for c in counts]),
        "macro_tr": mean([c.recall for c in counts]),
        "macro_tf1": mean([c.f1 for c in counts]),
    }
