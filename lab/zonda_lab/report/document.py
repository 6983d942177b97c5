"""The parts of a report, rendered as HTML and as Markdown."""

import re
from dataclasses import dataclass, field


def slug(text: str) -> str:
    """The text as part of an id, a file name or a link: an experiment file may have any id, and levels any name."""
    return re.sub(r"\W+", "-", text)


@dataclass(frozen=True)
class Heading:
    """A title; level 2 starts an experiment."""

    level: int
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Text:
    """A paragraph; it starts with `strong` in bold."""

    text: str
    strong: str = ""


@dataclass(frozen=True)
class Table:
    """A table; numeric columns are right-aligned; `moods` (good, bad, dim) are the CSS classes of the rows."""

    head: list[str]
    rows: list[list[str]]
    moods: list[str] = field(default_factory=list)


def filled_table(head: list[str], rows: list[list[str]], moods: list[str] | None = None) -> Table:
    """A table without the columns in which no row has anything."""
    filled = [column for column in range(len(head)) if any(row[column] for row in rows)]
    return Table([head[i] for i in filled], [[row[i] for i in filled] for row in rows], moods or [])


@dataclass(frozen=True)
class Figure:
    """A plot as SVG, with its caption."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Folded:
    """Parts that are collapsed until the reader opens them."""

    title: str
    parts: "list[Part]"
    only_page: bool = False  # left out of Markdown


Part = Heading | Text | Table | Figure | Folded


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    parts: list[Part]
