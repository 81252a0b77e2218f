"""A rule on loops: the same call again and again, the same words again and again."""

from collections import deque
from itertools import groupby

from envace.filters.funnel import Rule
from envace.leakage.text import words
from envace.trajectory import Trajectory

N = 4
"""Tokens of the n-grams counted."""


def repeated(text: str) -> tuple[float, int]:
    """The share of a text's 4-grams that occurred before in it, in [0, 1), and the number of 4-grams.

    Source: the duplicate n-gram signals of MassiveText (arXiv 2112.11446, appendix A).
    """
    tokens = words(text)
    grams = [tuple(tokens[start : start + N]) for start in range(len(tokens) - N + 1)]
    return (1 - len(set(grams)) / len(grams) if grams else 0.0), len(grams)


def repetition(max_same_calls: int = 3, max_share: float = 0.5, min_grams: int = 40) -> Rule:
    """A rule that refuses loops.

    Args:
        max_same_calls: Most times in a row that an assistant may make one call, arguments included, and
            get one and the same response; polling gets another in the end.
        max_share: Greatest share of repeated 4-grams in the text of one assistant turn.
        min_grams: 4-grams from which on a text is long enough to tell.
    """

    def rule(trajectory: Trajectory) -> str | None:
        for name, same in groupby(_exchanges(trajectory)):
            times = len(list(same))
            if times > max_same_calls:
                return (
                    f"{name[0]} called {times} times in a row with the same response, limit {max_same_calls}"
                )
        for number, message in enumerate(trajectory.messages):
            if message.role == "assistant":
                share, count = repeated(message.content)
                if count >= min_grams and share > max_share:
                    return f"message {number}: {share:.0%} repeated, limit {max_share:.0%}"
        return None

    return rule


def _exchanges(trajectory: Trajectory) -> list[tuple[str, str, str]]:
    """Every call with its response: (tool, call, response)."""
    waiting: deque[tuple[str, str]] = deque()
    exchanges = []
    for message in trajectory.messages:
        waiting.extend((call.name, call.text()) for call in message.tool_calls)
        if message.role == "tool" and waiting:
            exchanges.append((*waiting.popleft(), message.content))
    return exchanges
