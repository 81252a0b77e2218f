"""What a page is made of, the same for HTML and Markdown; all text is plain and escaped by the renderer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    """Its text."""
    tone: Literal["plain", "lead", "warning"] = "plain"
    """How it is set: `lead` for findings, `warning` for what must not be overlooked."""
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]
    """Its items."""
    kind: Literal["bullets"] = "bullets"


@dataclass(frozen=True)
class Table:
    """A table."""

    caption: str
    """What it shows, with units."""
    head: Sequence[str]
    """Column names."""
    rows: Sequence[Sequence[str]]
    """Cells."""
    texts: int = 1
    """Leading columns that hold text; the others hold numbers and are set to the right."""
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Picture:
    """A figure of `envace.report.figures`."""

    name: str
    """Its name there."""
    caption: str
    """What it shows."""
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True)
class Tile:
    """One number to see first."""

    label: str
    """What it is."""
    value: str
    """The number."""
    note: str
    """Its change or context."""


@dataclass(frozen=True)
class Tiles:
    """The numbers to see first."""

    tiles: Sequence[Tile]
    """In order."""
    kind: Literal["tiles"] = "tiles"


Block = Text | Bullets | Table | Picture | Tiles


@dataclass(frozen=True)
class Section:
    """A titled part of the page."""

    title: str
    """Heading."""
    blocks: Sequence[Block]
    """Content in order."""

    @property
    def anchor(self) -> str:
        """Fragment that links to it."""
        return self.title.lower().replace(" ", "-")
