"""What the rig could do at most: shares of the echo server's rate, its latency, and figures the rig limits."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from zonda_lab.analysis.analysis import Cell, tabulate
from zonda_lab.experiments.metrics import LIMITS, METRICS
from zonda_lab.report.document import Part, Text
from zonda_lab.results.window_record import WindowRecord

CAPACITY = "capacity_qps"


class Echo:
    """The echo server's metrics for each treatment of an experiment."""

    def __init__(self, records: Sequence[WindowRecord]) -> None:
        self.records = [record for record in records if record.counts]
        self.own = [record for record in self.records if record.server.get("kind") == "echo"]

    def latency(self, metric: str, cell: Cell) -> float | None:
        """The echo's latency at the levels of the cell; None if it was not measured."""
        recorded = [r.echo[metric] for r in self._like(cell) if metric in r.echo]
        if recorded:
            return float(np.median(recorded))
        return next((own.median for own in tabulate(self.own, metric) if _others(own) == _others(cell)), None)

    def share(self, metric: str, cell: Cell) -> float | None:
        """The rate as a share of the echo's highest rate in the same rig and transport."""
        if not METRICS[metric].capacity or cell.levels.get("server.name") in LIMITS:
            return None
        limits = [limit for r in self._like(cell) if (limit := r.echo.get(CAPACITY) or r.metrics.get("echo_qps"))]
        if limits:
            return cell.median / float(np.median(limits))
        rates = [own.median for own in tabulate(self.own, metric)]
        return cell.median / max(rates) if rates else None

    def _like(self, cell: Cell) -> list[WindowRecord]:
        return [record for record in self.records if record.levels == cell.levels]


def rig_bound(records: Sequence[WindowRecord]) -> list[Part]:
    """Which windows the rig limited, and why; their figures are printed as “at least”."""
    counting = [record for record in records if record.counts]
    limited = [record for record in counting if record.rig_bound]
    if not limited:
        return []
    reasons = Counter(record.rig_bound for record in limited)
    text = f"{len(limited)} of {len(counting)} windows were limited by the rig and not by the server: "
    text += "; ".join(f"{why} ({n})" for why, n in reasons.most_common(3))
    advice = "Their rates are lower bounds; compare answers per second of CPU time instead."
    return [Text(f"{text}. {advice}", "Rig-bound.")]


def _others(cell: Cell) -> dict[str, str]:
    return {name: level for name, level in cell.levels.items() if name != "server.name"}
