"""The table of results: server, version, direction, feature, result; as text and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
HEADS = ("server", "version", "Zonda is", "feature", "result")


@dataclass(frozen=True)
class Result:
    """One cell; `direction` is the role of Zonda."""

    server: str
    version: str
    direction: str
    feature: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    commit: str = ""  # of Zonda

    @property
    def text(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.reason else self.outcome


def text(results: list[Result]) -> str:
    """One line per cell, and the counts."""
    rows = [HEADS, *((r.server, r.version, r.direction, r.feature, r.text) for r in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS) - 1)]
    lines = [" | ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]) for row in rows]
    counts = Counter(result.outcome for result in results)
    return "\n".join([*lines, "", ", ".join(f"{counts[outcome]} {outcome}" for outcome in (OK, FAILED, SKIPPED))])


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    return [asdict(result) for result in results]
