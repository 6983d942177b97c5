"""Expands `$GENERATE` in the zone files of this folder, for servers that do not support it."""

from __future__ import annotations

import re
from pathlib import Path

ZONES = Path(__file__).resolve().parent / "zones"


def expanded(source: Path) -> str:
    """The text of a zone file with each `$GENERATE first-last line` expanded (`$` is the number; modifiers are not supported)."""
    return "\n".join(line for raw in source.read_text().splitlines() for line in generated(raw)) + "\n"


def generated(line: str) -> list[str]:
    """The lines that one line expands to."""
    if not (match := re.fullmatch(r"\$GENERATE (\d+)-(\d+) (.*)", line)):
        return [line]
    first, last, template = int(match[1]), int(match[2]), match[3]
    return [template.replace("$", str(number)) for number in range(first, last + 1)]
