"""The parts of a JSON file, one at a time: elements of an array, or values that follow each other.

A tokenizer of its own, since a library for large JSON gives values without their text and line, and
stops at the first fault. Here brackets and strings alone are followed, so that a faulty element is set
aside and the next one read; memory holds one element.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from envace.errors import EnvaceError

CHUNK = 1 << 20
"""Characters read at once."""
MAX_ELEMENT = 1 << 28
"""Characters of one element; a longer one means a missing quote or bracket."""

# A string that does not end leaves the last group empty: more must be read, or the file is cut.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*("?)|[\[\]{},]', re.DOTALL)


@dataclass(frozen=True)
class Part:
    """One element as it stands in its file."""

    line: int
    """Line on which it begins, from 1."""
    text: str
    """Its text; empty where the fault is that something is missing."""
    fault: str = ""
    """Why it is no whole element, and the mend."""


class _Reader:
    """A window on a text file that knows the line of what it hands out."""

    def __init__(self, handle: TextIO, name: str) -> None:
        self._handle, self._name = handle, name
        self.text, self.ended = "", False
        self.start = 0
        self._line, self._counted = 1, 0

    def more(self) -> None:
        """Read on, as much again as is waiting, so that a long element is not scanned over and over."""
        waiting = len(self.text) - self.start
        if waiting > MAX_ELEMENT:
            raise EnvaceError(
                f"{self._name}:{self.line()}: an element of more than {MAX_ELEMENT} characters",
                "look for a missing quote or bracket",
            )
        found = self._handle.read(max(CHUNK, waiting))
        self.ended = not found
        self.text += found

    def line(self) -> int:
        """Line of what begins at `start`, white space skipped."""
        head = self.text[self.start : self.start + CHUNK]
        begins = self.start + len(head) - len(head.lstrip())
        self._line += self.text.count("\n", self._counted, begins)
        self._counted = begins
        return self._line

    def take(self, end: int, after: int) -> Part:
        """The part from `start` to `end`; the next one begins at `after`."""
        part = Part(self.line(), self.text[self.start : end].strip())
        self.start = after
        return part

    def trim(self, position: int) -> int:
        """Forget what was handed out, once it is long; returns the position in what is left."""
        if self.start < CHUNK:
            return position
        cut = min(self.start, self._counted)
        self.text = self.text[cut:]
        self.start, self._counted = self.start - cut, self._counted - cut
        return position - cut


def parts(handle: TextIO, name: str, array: bool) -> Iterator[Part]:
    """Yield the elements of the array that a file holds, or the values that follow each other in it.

    Args:
        handle: The file, at its beginning.
        name: How an error names it.
        array: True for the elements of one array, which is the first thing in the file.

    Raises:
        EnvaceError: An element longer than `MAX_ELEMENT`.
    """
    reader, position, depth, base = _Reader(handle, name), 0, 0, int(array)
    while not reader.ended:
        token = _TOKEN.search(reader.text, position)
        if token is None or (token[1] == "" and token[0][0] == '"'):
            position = token.start() if token else len(reader.text)
            reader.more()
            continue
        sign, position = token[0], token.end()
        depth += (sign in "[{") - (sign in "]}")
        if array and sign == "[" and depth == 1 and not reader.text[reader.start : token.start()].strip():
            reader.start = position
        elif array and (depth < base or (sign == "," and depth == base)):
            part = reader.take(token.start(), position)
            if part.text:
                yield part
            elif sign == ",":
                yield Part(part.line, ",", "an element is missing (remove the comma)")
            if depth < base:
                yield from _after(reader)
                return
        elif not array and depth == base and sign in "]}":
            yield reader.take(position, position)
        position = reader.trim(position)
    rest = reader.take(len(reader.text), len(reader.text))
    if rest.text:
        yield Part(rest.line, rest.text, "the file ends inside this element (was it cut off?)")
    elif array:
        yield Part(rest.line, "", "the array has no ] (was the file cut off?)")


def _after(reader: _Reader) -> Iterator[Part]:
    """What follows the array, which should be nothing."""
    while not reader.ended:
        reader.more()
    rest = reader.take(len(reader.text), len(reader.text))
    if rest.text:
        yield Part(rest.line, rest.text, "text after the array (remove it, or one array a file)")
