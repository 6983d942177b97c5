"""The top of a page: one picture and three sentences: who answers most, who costs least, what cannot be said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zonda_lab.analysis.analysis import Cell, measured_for
from zonda_lab.analysis.effects import MIN_STARTS
from zonda_lab.experiments.definition import Published
from zonda_lab.experiments.metrics import WITHOUT_DNS
from zonda_lab.report.document import Figure, Part, Text
from zonda_lab.report.number_format import number, span_text
from zonda_lab.report.plot_style import Bar, bars_of, styles
from zonda_lab.report.size import FEW
from zonda_lab.results.settings_bounds import ANSWERED
from zonda_lab.results.window_record import WindowRecord

RATES = ("answered_qps", "peak_999_qps")  # the first that was measured is shown
COST = "cpu_us_per_query"


@dataclass(frozen=True)
class Ranking:
    """The servers by one metric, the best first, and the echo server if it was measured."""

    metric: str
    servers: list[Cell]
    echo: Cell | None
    offered_qps: float  # the highest rate at which they were measured
    levels: dict[str, str]  # of the other factors, which all of its windows have in common
    missing: list[str]  # servers that were measured, but not under these conditions

    @property
    def leaders(self) -> list[Cell]:
        """The best server and all whose interval overlaps its interval, or that are only bounds."""
        best = self.servers[0]
        return [cell for cell in self.servers if cell is best or _overlap(best, cell) or cell.bound]


def opening(records: Sequence[WindowRecord]) -> list[Part]:
    """The picture and the sentences, from windows of UDP; nothing if fewer than two servers were measured."""
    plain = [r for r in records if r.levels.get("traffic.transport", "udp") == "udp"]
    rate = next((found for metric in RATES if (found := ranking(plain, metric))), None)
    cost = ranking(plain, COST)
    if not rate or not cost:
        return []
    panels = [("queries answered per second", *_bars(rate)), ("CPU time per answer, µs", *_bars(cost))]
    return [
        Figure("overview", bars_of(panels), _caption(rate, cost)),
        Text(_who(rate, "answers most", "queries per second"), "Who answers most?"),
        Text(_who(cost, "costs least", _cost_unit(cost)), "Who costs least?"),
        Text(_unknown(rate, cost, records), "What cannot be said?"),
    ]


def ranking(records: Sequence[WindowRecord], metric: str) -> Ranking | None:
    """Each server's best rate, or its cost where each answered everything, in the experiment with most servers.

    Of conditions with as many servers the one with the highest rate, or else the first.
    """
    groups: dict[tuple[str, ...], list[WindowRecord]] = {}
    for record in records:
        if record.has(metric):
            at = _others(record.treatment) if metric in RATES else _conditions(record)
            if at is not None:
                groups.setdefault((record.experiment, *at.values()), []).append(record)
    by_offer = sorted(groups.values(), key=_offered, reverse=True)
    found = [(measured_for(windows, Published("", "", metric), with_limits=True), windows) for windows in by_offer]
    cells, windows = max(found, key=lambda group: _comparable(group[0]), default=([], []))
    named = [cell for cell in cells if _name(cell) not in WITHOUT_DNS]
    if len(named) < 2:
        return None
    echo = next((cell for cell in cells if _name(cell) == "echo"), None)
    servers = sorted(named, key=lambda cell: cell.median * (1 if metric == COST else -1))
    measured = dict.fromkeys(r.levels["server.name"] for r in records if r.has(metric))
    missing = [name for name in measured if name not in (*WITHOUT_DNS, *map(_name, named))]
    return Ranking(metric, servers, echo, _offered(windows), _others(windows[0].levels), missing)


def _offered(windows: Sequence[WindowRecord]) -> float:
    return max(record.metrics.get("offered_qps", 0.0) for record in windows)


def _cost_unit(cost: Ranking) -> str:
    """The cost depends on the rate: the fuller the batches, the less an answer costs."""
    rate = f", at {number(cost.offered_qps)} queries per second" if cost.offered_qps else ""
    return f"µs of CPU time per answer{rate}"


def _conditions(record: WindowRecord) -> dict[str, str] | None:
    """What a cost is measured at; None if the server did not answer everything, or in a search at a rate of its own."""
    if record.served_share < ANSWERED or "trials" in record.detail:
        return None
    return _others(record.levels)


def _others(levels: Mapping[str, str]) -> dict[str, str]:
    return {name: level for name, level in levels.items() if name != "server.name"}


def _comparable(cells: Sequence[Cell]) -> tuple[int, int]:
    """How many servers have enough starts, and how many were measured at all."""
    return sum(len(cell.values) >= MIN_STARTS for cell in cells), len(cells)


def _bars(ranking: Ranking) -> tuple[list[Bar], float | None]:
    bars = [
        (f"{name} ({cell.bound})" if cell.bound else name, cell.median, (cell.low, cell.high), colour)
        for cell, (name, colour) in zip(ranking.servers, _coloured(ranking.servers), strict=True)
    ]
    return bars, ranking.echo.median if ranking.echo else None


def _coloured(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    names = [_name(cell) for cell in cells]
    return [(name, colour) for name, (colour, _) in zip(names, styles(names), strict=True)]


def _caption(rate: Ranking, cost: Ranking) -> str:
    counts = [len(cell.values) for cell in (*rate.servers, *cost.servers)]
    n = f"{span_text(min(counts), max(counts))} start{'s' if max(counts) > 1 else ''}"
    dashed = " Dashed: an echo program without DNS, measured in the same way."
    echo = dashed if rate.echo or cost.echo else ""
    return f"Left: more is better; right: less is better. Medians of {n}, lines: 95 % intervals.{echo}"


def _who(ranking: Ranking, does: str, unit: str) -> str:
    leaders = ranking.leaders
    if len(leaders) == 1:
        second = ranking.servers[1]
        values = f"{_plain(leaders[0])} {unit}"
        next_one = f"next is {_name(second)} with {_plain(second)}"
        return f"{_name(leaders[0])} {does}: {values}; {next_one}."
    listed = ", ".join(f"{_name(cell)} {_plain(cell)}" for cell in leaders)
    return f"No single server {does}; too close to call between {listed} ({unit})."


def _unknown(rate: Ranking, cost: Ranking, records: Sequence[WindowRecord]) -> str:
    """The limits of these figures that were found, the most important first."""
    reasons = []
    if any(cell.bound for cell in rate.servers):
        bound = ", ".join(_name(cell) for cell in rate.servers if cell.bound)
        reasons.append(f"how much more than shown {bound} could answer, because the load was the limit")
    if rate.echo and (near := [_name(c) for c in rate.servers if c.median > 0.9 * rate.echo.median]):
        reasons.append(f"whether {', '.join(near)} could answer more, because the echo program cannot either")
    if min(len(cell.values) for cell in (*rate.servers, *cost.servers)) < FEW:
        reasons.append("small differences, because there were few starts")
    excluded = sum(not record.counts and not record.skipped for record in records)
    if excluded:
        windows = "window" if excluded == 1 else f"{number(excluded)} windows"
        reasons.append(f"anything about the {windows} that broke a validity rule")
    reasons.append("how the servers compare on other hardware or with other zones")
    return f"These figures do not show {', or '.join(reasons)}."


def _overlap(a: Cell, b: Cell) -> bool:
    is_unclear = min(len(a.values), len(b.values)) < MIN_STARTS
    return is_unclear or (a.low <= b.high and b.low <= a.high)


def _name(cell: Cell) -> str:
    return cell.levels["server.name"]


def _plain(cell: Cell) -> str:
    """Three digits, which are enough for a sentence."""
    return f"{cell.bound} {number(cell.median)}".strip()
