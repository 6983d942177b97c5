"""Renders a document as Markdown; plots are separate files."""

from zonda_lab.report.document import Document, Figure, Folded, Heading, Part, Table, Text


def render(document: Document) -> str:
    """The whole text; the SVG files are in the folder `figures`."""
    return f"# {document.title}\n\n" + "".join(map(part_markdown, document.parts))


def part_markdown(part: Part) -> str:
    """One part."""
    match part:
        case Heading():
            return f"{'#' * part.level} {part.text}\n\n"
        case Text():
            return (f"**{part.strong}** " if part.strong else "") + f"{part.text}\n\n"
        case Table():
            rows = [part.head, ["---"] * len(part.head), *part.rows]
            return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows) + "\n"
        case Figure():
            return f"![{part.caption}](figures/{part.name}.svg)\n\n{part.caption}\n\n"
        case Folded():
            inner = "".join(map(part_markdown, part.parts))
            return f"<details><summary>{part.title}</summary>\n\n{inner}</details>\n\n"
