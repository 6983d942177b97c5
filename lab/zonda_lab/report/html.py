"""Renders a document as one self-contained HTML page, without scripts."""

import html
import re
from pathlib import Path

from zonda_lab.report.document import Document, Figure, Folded, Heading, Part, Table, Text

STYLE = Path(__file__).with_name("style.css")


def render(document: Document) -> str:
    """The page."""
    contents = "".join(
        f'<li><a href="#{part.anchor}">{escape(part.text)}</a></li>'
        for part in document.parts
        if isinstance(part, Heading) and part.level == 2 and part.anchor
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n<style>\n{STYLE.read_text()}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(document.title)}</h1></header>\n<nav><ul>{contents}</ul></nav>\n<main>\n"
        + "".join(map(part_html, document.parts))
        + "</main>\n</body>\n</html>\n"
    )


def part_html(part: Part) -> str:
    """One part."""
    match part:
        case Heading():
            anchor = f' id="{part.anchor}"' if part.anchor else ""
            return f"<h{part.level}{anchor}>{escape(part.text)}</h{part.level}>\n"
        case Text():
            strong = f"<strong>{escape(part.strong)}</strong> " if part.strong else ""
            return f"<p>{strong}{escape(part.text)}</p>\n"
        case Table():
            return table_html(part)
        case Figure():
            return f"<figure>{part.svg}<figcaption>{escape(part.caption)}</figcaption></figure>\n"
        case Folded():
            inner = "".join(map(part_html, part.parts))
            return f"<details><summary>{escape(part.title)}</summary>\n{inner}</details>\n"


def table_html(table: Table) -> str:
    """A table that scrolls sideways on small screens."""
    columns = range(len(table.head))
    classes = [" class=n" if all(is_figure(row[i]) for row in table.rows) else "" for i in columns]
    head = "".join(f"<th{kind}>{escape(cell)}</th>" for cell, kind in zip(table.head, classes, strict=True))
    rows = []
    for number, row in enumerate(table.rows):
        mood = table.moods[number] if number < len(table.moods) else ""
        cells = "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, classes, strict=True))
        rows.append(f"<tr{f' class={mood}' if mood else ''}>{cells}</tr>")
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>\n"


def is_figure(cell: str) -> bool:
    """Whether the cell is a number or empty; text may also start with a digit."""
    return not cell or ((cell[0].isdigit() or cell[0] in "<≤≥−-±∞–") and not re.search(r"[^\W\d_]{4}", cell))


def escape(text: str) -> str:
    """Text inside HTML; backticks become code elements."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
