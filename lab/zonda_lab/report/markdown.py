"""Renders a document as Markdown; plots are separate files."""

from zonda_lab.report.document import Document, Figure, Folded, Heading, Part, Table, Text


def render(document: Document, figures: str = "figures") -> str:
    """The whole text; `figures` is the folder of the SVG files."""
    return f"# {document.title}\n\n" + "".join(part_markdown(part, figures) for part in document.parts)


def part_markdown(part: Part, figures: str) -> str:
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
            return f"![{part.caption}]({figures}/{part.name}.svg)\n\n{part.caption}\n\n"
        case Folded():
            inner = "".join(part_markdown(each, figures) for each in part.parts)
            return f"<details><summary>{part.title}</summary>\n\n{inner}</details>\n\n"
