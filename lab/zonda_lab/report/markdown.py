"""Renders a document as Markdown; plots are separate files."""

import re
from collections.abc import Iterable

from zonda_lab.report.document import Document, Figure, Folded, Heading, Part, Table, Text


def render(document: Document) -> str:
    """The whole text without the parts for the page only, which it names; SVG files are in the folder `figures`."""
    left_out = dict.fromkeys(part.title for part in document.parts if isinstance(part, Folded) and part.only_page)
    note = f"**Only on the HTML page.** {'; '.join(left_out)}.\n\n" if left_out else ""
    return f"# {document.title}\n\n{note}{''.join(map(part_markdown, document.parts))}"


def part_markdown(part: Part) -> str:
    """One part."""
    match part:
        case Heading():
            return f"{'#' * part.level} {inline(part.text)}\n\n"
        case Text():
            return (f"**{inline(part.strong)}** " if part.strong else "") + f"{inline(part.text)}\n\n"
        case Table():
            return "".join(map(row_markdown, [part.head, ["---"] * len(part.head), *part.rows])) + "\n"
        case Figure():
            caption = inline(part.caption)
            return f"![{caption}](figures/{part.name}.svg)\n\n{caption}\n\n"
        case Folded(only_page=True):
            return ""
        case Folded():
            inner = "".join(map(part_markdown, part.parts))
            return f"<details><summary>{inline(part.title)}</summary>\n\n{inner}</details>\n\n"


def row_markdown(cells: Iterable[str]) -> str:
    """One row of a table."""
    return "| " + " | ".join(inline(cell).replace("|", "\\|") for cell in cells) + " |\n"


def inline(text: str) -> str:
    """Text on one line, in which no name becomes an HTML element; code between backticks stays as it is."""
    line = " ".join(text.split())
    return re.sub(r"(`[^`]*`)|<(?=[A-Za-z/!?])", lambda found: found[1] or "&lt;", line)
