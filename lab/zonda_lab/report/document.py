"""What a report is made of; the same parts are written as HTML and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Heading:
    """A title; level 1 begins an experiment."""

    level: int
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Text:
    """A paragraph; `strong` begins it."""

    text: str
    strong: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a head; columns of figures are set right; a row's `mood` (good, bad, dim) colours it."""

    head: list[str]
    rows: list[list[str]]
    moods: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """A plot: its SVG and what it shows."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Folded:
    """Parts that the reader opens if they want to."""

    title: str
    parts: list[Part]


Part = Heading | Text | Table | Figure | Folded


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    parts: list[Part]
