"""Zone texts of this folder as servers without $GENERATE can read them."""

from __future__ import annotations

import re
from pathlib import Path

ZONES = Path(__file__).resolve().parent / "zones"


def expanded(source: Path) -> str:
    """The text of a zone file with its `$GENERATE first-last line` written out (`$` is the number, without modifiers)."""
    return "\n".join(line for raw in source.read_text().splitlines() for line in generated(raw)) + "\n"


def generated(line: str) -> list[str]:
    """The lines that one line stands for."""
    if not (match := re.fullmatch(r"\$GENERATE (\d+)-(\d+) (.*)", line)):
        return [line]
    first, last, template = int(match[1]), int(match[2]), match[3]
    return [template.replace("$", str(number)) for number in range(first, last + 1)]
