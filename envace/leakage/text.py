"""Text as comparable tokens that remember where they came from.

Case, punctuation, line breaks, width and composed characters do not count, so a leak that was
re-cased, re-wrapped or re-typed has the same tokens. Chinese and Japanese are written without
spaces: there every character is a token, which makes word n-grams character n-grams.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_CJK = r"\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_MARKS = r"\u0300-\u036f\u3099\u309a"
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
# A mark or an invisible character inside a word must not split it: "cafe\u0301" is one word.
_TOKEN = re.compile(rf"[{_CJK}][{_MARKS}]*|(?:[^\W_{_CJK}]|[{_MARKS}{_INVISIBLE}])+")
_ASCII_TOKEN = re.compile(r"[a-z0-9]+")
_CHARACTER = re.compile(f"[{_CJK}]")
_BREAK = re.compile(r"[\n.,;:!?…。，、；：！？\"“”„«»「」『』()（）\[\]{}<>|—–]")
_DROP_INVISIBLE = dict.fromkeys(map(ord, _INVISIBLE))


@dataclass(frozen=True)
class Text:
    """A text with its tokens."""

    source: str
    """The text as it was."""
    tokens: tuple[str, ...]
    """Normalized tokens."""
    spans: tuple[tuple[int, int], ...]
    """Character range of every token in `source`."""

    def cut(self, start: int, end: int) -> str:
        """The part of the source that tokens `start` to `end` (exclusive) cover."""
        return self.source[self.spans[start][0] : self.spans[end - 1][1]] if end > start else ""


def tokenize(source: str) -> Text:
    """Split into NFKC, case-folded tokens; punctuation and white space only separate."""
    tokens: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(source):
        pieces = _normalize(match.group())
        tokens += pieces
        spans += [match.span()] * len(pieces)
    return Text(source, tuple(tokens), tuple(spans))


def words(source: str) -> list[str]:
    """The tokens alone, several times faster: for the many texts that match nothing."""
    if source.isascii():
        return _ASCII_TOKEN.findall(source.lower())
    return [piece for raw in _TOKEN.findall(source) for piece in _normalize(raw)]


def word_count(tokens: Sequence[str]) -> float:
    """How many words the tokens are; a Chinese or Japanese word has about two characters."""
    return sum(0.5 if _CHARACTER.match(token) else 1.0 for token in tokens)


def stands_alone(tokens: Sequence[str], source: str) -> bool:
    """Whether a text has the tokens in a row, with its begin, its end or a punctuation mark at both ends."""
    text = tokenize(source)
    wanted, length = tuple(tokens), len(tokens)
    ends = [(0, 0), *text.spans, (len(source), len(source))]
    for start in range(len(text.tokens) - length + 1):
        if text.tokens[start : start + length] == wanted:
            # `ends` is one ahead of the tokens: its entry `start` is the token before.
            before = source[ends[start][1] : ends[start + 1][0]]
            behind = source[ends[start + length][1] : ends[start + length + 1][0]]
            first, last = start == 0, start + length == len(text.tokens)
            if (first or _BREAK.search(before)) and (last or _BREAK.search(behind)):
                return True
    return False


@lru_cache(maxsize=1 << 16)
def _normalize(raw: str) -> tuple[str, ...]:
    if raw.isascii():
        return (raw.lower(),)
    folded = unicodedata.normalize("NFKC", raw.translate(_DROP_INVISIBLE)).casefold()
    # Compatibility forms may hide a separator or several characters (one half, half-width kana).
    return tuple(_TOKEN.findall(unicodedata.normalize("NFKC", folded)))
