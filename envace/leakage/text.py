"""Text as comparable tokens that remember where they came from.

Case, punctuation, line breaks, width and composed characters do not count, so a leak that was
re-cased, re-wrapped or re-typed has the same tokens. Chinese and Japanese are written without
spaces: there every character is a token, which makes word n-grams character n-grams.
"""

import re
import unicodedata
from dataclasses import dataclass

_CJK = r"\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_MARKS = r"\u0300-\u036f\u3099\u309a"
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
# A mark or an invisible character inside a word must not split it: "cafe\u0301" is one word.
_TOKEN = re.compile(rf"[{_CJK}][{_MARKS}]*|(?:[^\W_{_CJK}]|[{_MARKS}{_INVISIBLE}])+")
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
        raw = match.group()
        pieces = [raw.lower()] if raw.isascii() else _normalize(raw)
        tokens += pieces
        spans += [match.span()] * len(pieces)
    return Text(source, tuple(tokens), tuple(spans))


def _normalize(raw: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", raw.translate(_DROP_INVISIBLE)).casefold()
    # Compatibility forms may hide a separator or several characters (one half, half-width kana).
    return _TOKEN.findall(unicodedata.normalize("NFKC", folded))
