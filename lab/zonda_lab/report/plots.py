"""The plots, each a function from records to SVG; `PLOTS` is the table that experiments choose from."""

from __future__ import annotations

import io
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from zonda_lab import statistics as st
from zonda_lab.analysis import Cell, table
from zonda_lab.experiment import Analysis
from zonda_lab.hdr import Latency, read_log
from zonda_lab.metrics import METRICS
from zonda_lab.record import Record
from zonda_lab.report.document import Figure
from zonda_lab.series import Floats, Telemetry, net

COLOURS = ("#0b6e99", "#d1495b", "#2e933c", "#8f5db7", "#e08e1a", "#4a5568", "#00a3a3", "#a0522d")
MARKERS = "osD^vPX*"
PERCENTILES = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999]
mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "zonda-lab",
        "font.size": 9,
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "lines.linewidth": 1.4,
    }
)


@dataclass(frozen=True)
class Source:
    """What a plot is made from: the windows of one experiment and where their files are."""

    id: str
    records: Sequence[Record]
    analysis: Analysis
    folder: Path


def thousands(value: float, _: float) -> str:
    """A tick of an axis: thousands apart, no more digits than it has."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def svg(canvas: Canvas) -> str:
    """The drawing as an SVG element with ids that are its own, so that several stand in one page."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    return re.sub(r"^.*?(?=<svg)", "", buffer.getvalue(), flags=re.DOTALL)


def canvas_of(width: float = 8.0, height: float = 4.0) -> tuple[Canvas, Axes]:
    """An empty drawing."""
    canvas = Canvas(figsize=(width, height), layout="constrained")
    axes = canvas.add_subplot()
    axes.xaxis.set_major_formatter(thousands)
    axes.yaxis.set_major_formatter(thousands)
    return canvas, axes


def curve(source: Source) -> list[Figure]:
    """Share answered over the rate that was really sent, with the monotone fit."""
    canvas, axes = canvas_of()
    for name, records, style in _series(source, "answered_share"):
        sent = [record.metrics["sent_qps"] for record in records]
        share = [100 * record.metrics["answered_share"] for record in records]
        axes.plot(sent, share, linestyle="", alpha=0.5, markersize=4, **style)
        order = np.argsort(sent)
        axes.plot(np.array(sent)[order], st.falling(sent, share)[order], color=style["color"], label=name)
    if not axes.lines:
        return []
    axes.set(xlabel="queries sent a second", ylabel="answered, %", ylim=(None, 100.5))
    axes.legend()
    return [
        Figure(
            f"{source.id}-curve",
            svg(canvas),
            "Response rate: every window is a point, the line is the isotonic fit of its server.",
        )
    ]


def lines(source: Source) -> list[Figure]:
    """Each metric over the x factor, medians over starts with their 95 % intervals."""
    return list(filter(None, (_line_plot(source, metric) for metric in _metrics(source))))


def boxes(source: Source) -> list[Figure]:
    """Each metric by treatment, every start a point."""
    return list(filter(None, (_box_plot(source, metric) for metric in _metrics(source))))


def bars(source: Source) -> list[Figure]:
    """Peaks by share answered, side by side."""
    names = [name for name in METRICS if name.startswith("peak_") and name.endswith("_qps")]
    found = {name: [cell for cell in table(source.records, name) if not cell.copy] for name in names}
    labels = list(dict.fromkeys(cell.label for cells in found.values() for cell in cells))
    if not labels:
        return []
    canvas, axes = canvas_of(height=0.6 + 0.55 * len(labels))
    for offset, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        for cell in found[name]:
            at = labels.index(cell.label) + (offset - 1.5) * 0.2
            reach = [[cell.median - min(cell.low, cell.median)], [max(cell.high, cell.median) - cell.median]]
            axes.barh(
                at,
                cell.median,
                0.18,
                color=colour,
                xerr=reach,
                label=METRICS[name].title if not labels.index(cell.label) else None,
            )
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set(xlabel="queries a second")
    axes.legend(fontsize=7)
    return [
        Figure(
            f"{source.id}-peaks",
            svg(canvas),
            "Highest rates at which so large a share was answered, confirmed by two of three windows.",
        )
    ]


def latency(source: Source) -> list[Figure]:
    """Latency by percentile, from the intended send time (full) and from the actual one (dotted)."""
    merged: dict[tuple[str, str], Latency] = {}
    for name, records, _ in _series(source, "answered_share"):
        for record in records:
            path = source.folder / record.files.get("latency", "absent")
            for tag, histogram in read_log(path).items() if path.exists() else ():
                merged.setdefault((name, tag), Latency()).merge(histogram)
    if not merged:
        return []
    canvas, axes = canvas_of()
    colours = dict(zip(dict.fromkeys(name for name, _ in merged), itertools.cycle(COLOURS)))
    for (name, tag), histogram in merged.items():
        values = [histogram.percentile(percent) for percent in PERCENTILES]
        x = [1 / (1 - percent / 100) for percent in PERCENTILES]
        axes.plot(
            x, values, ":" if tag == "actual" else "-", color=colours[name], label=None if tag == "actual" else name
        )
    axes.set(xscale="log", yscale="log", xlabel="percentile", ylabel="latency, µs")
    axes.set_xticks([1, 2, 10, 100, 1000, 10_000, 100_000], ["0", "50", "90", "99", "99.9", "99.99", "99.999"])
    axes.legend()
    return [
        Figure(
            f"{source.id}-latency",
            svg(canvas),
            "Latency from the intended send time, dotted from the actual one; lost queries stand at their timeout.",
        )
    ]


def time(source: Source) -> list[Figure]:
    """What happened when: CPU, sockets, drops and zones of one start of each treatment, on one clock."""
    found = []
    for treatment, record in _first_windows(source):
        path = source.folder / record.files.get("telemetry", "absent")
        if path.exists():
            found.append(_timeline(source, treatment, record, Telemetry.load(path)))
    return found


def arrivals(source: Source) -> list[Figure]:
    """Zones transferred over time, every start a line, and the bound that the ports set."""
    canvas, axes = canvas_of()
    for name, records, style in _series(source, "zones_per_s"):
        for number, record in enumerate(records):
            points = record.detail["arrivals"]
            axes.step(
                [0, *(at for at, _ in points)],
                [0, *(n for _, n in points)],
                where="post",
                color=style["color"],
                alpha=0.7,
                label=None if number else name,
            )
    if not axes.lines:
        return []
    axes.set(xlabel="seconds since the secondary started", ylabel="zones answered")
    axes.legend()
    return [Figure(f"{source.id}-arrivals", svg(canvas), "Zones that the secondary answers for, every start a line.")]


PLOTS: dict[str, Callable[[Source], list[Figure]]] = {
    "curve": curve,
    "lines": lines,
    "boxes": boxes,
    "bars": bars,
    "latency": latency,
    "time": time,
    "arrivals": arrivals,
}


def _metrics(source: Source) -> list[str]:
    """Those of the analysis, but for the share answered where it has its curve."""
    wanted = dict.fromkeys([source.analysis.metric, *source.analysis.metrics])
    return [metric for metric in wanted if not (metric == "answered_share" and "curve" in source.analysis.plots)]


def _series(source: Source, metric: str) -> Iterable[tuple[str, list[Record], dict[str, Any]]]:
    """The valid windows that have the metric, grouped by all levels but the one along the x axis."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in source.records:
        if record.counts and metric in record.metrics and not record.copy:
            name = ", ".join(level for factor, level in record.levels.items() if factor != source.analysis.x)
            groups[name or source.id].append(record)
    styles = (
        {"color": colour, "marker": marker}
        for colour, marker in zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS))
    )
    return [(name, records, style) for (name, records), style in zip(groups.items(), styles, strict=False)]


def _line_plot(source: Source, metric: str) -> Figure | None:
    series: dict[str, list[Cell]] = defaultdict(list)
    for cell in table(source.records, metric):
        if not cell.copy and _number(cell.levels.get(source.analysis.x, "")) is not None:
            series[", ".join(v for k, v in cell.levels.items() if k != source.analysis.x)].append(cell)
    if not series:
        return None
    canvas, axes = canvas_of(height=3.4)
    for (name, cells), colour, marker in zip(series.items(), itertools.cycle(COLOURS), itertools.cycle(MARKERS)):
        cells.sort(key=lambda cell: _number(cell.levels[source.analysis.x]) or 0)
        x = [_number(cell.levels[source.analysis.x]) or 0 for cell in cells]
        axes.plot(x, [cell.median for cell in cells], color=colour, marker=marker, markersize=4, label=name or None)
        axes.fill_between(
            x, [cell.low for cell in cells], [cell.high for cell in cells], color=colour, alpha=0.15, linewidth=0
        )
    positive = [cell.median for cells in series.values() for cell in cells if cell.median > 0]
    if positive and max(positive) > 50 * min(positive):
        axes.set_yscale("log")
    axes.set(xlabel=source.analysis.x, ylabel=METRICS[metric].axis)
    if any(series):
        axes.legend()
    return Figure(
        f"{source.id}-{metric}",
        svg(canvas),
        f"{METRICS[metric].heading}: medians over starts, 95 % intervals.",
    )


def _box_plot(source: Source, metric: str) -> Figure | None:
    cells = sorted(table(source.records, metric), key=lambda cell: (cell.label.replace(" (again)", ""), cell.copy))
    if not cells:
        return None
    canvas, axes = canvas_of(height=0.8 + 0.34 * len(cells))
    values = [list(cell.values.values()) for cell in cells]
    axes.boxplot(values, orientation="horizontal", widths=0.6, showfliers=False, medianprops={"color": COLOURS[1]})
    for row, numbers in enumerate(values, 1):
        spread = np.linspace(-0.18, 0.18, len(numbers)) if len(numbers) > 1 else [0.0]
        axes.plot(numbers, [row + offset for offset in spread], "o", color=COLOURS[0], markersize=3, alpha=0.7)
    axes.set_yticks(range(1, len(cells) + 1), [cell.label for cell in cells])
    axes.invert_yaxis()
    axes.set(xlabel=METRICS[metric].axis)
    return Figure(f"{source.id}-{metric}-boxes", svg(canvas), f"{METRICS[metric].heading}: every start a point.")


def _first_windows(source: Source) -> list[tuple[str, Record]]:
    found: dict[str, Record] = {}
    for record in source.records:
        if record.counts and not record.copy:
            found.setdefault(", ".join(record.treatment.values()), record)
    return list(found.items())


def _timeline(source: Source, treatment: str, record: Record, telemetry: Telemetry) -> Figure:
    zero, times = telemetry.times[0], telemetry.times - telemetry.times[0]
    canvas = Canvas(figsize=(8, 5), layout="constrained")
    used, sockets, events = canvas.subplots(3, 1, sharex=True)
    for label, colour in (("server", COLOURS[0]), ("load", COLOURS[1]), ("primary", COLOURS[2])):
        cores = telemetry.used_cores(label)
        if cores.any():
            used.plot(times[1:], cores, color=colour, label=label)
    used.plot(times[1:], _pressure(telemetry), color=COLOURS[4], linestyle=":", label="waiting for CPU")
    used.set(ylabel="CPUs used")
    sockets.plot(times, telemetry.gauge(net("server", "TCP.tw")), color=COLOURS[3], label="TIME_WAIT")
    sockets.plot(times, telemetry.gauge(net("server", "Tcp.CurrEstab")), color=COLOURS[6], label="established")
    sockets.set(ylabel="TCP sockets")
    for counter, what, colour in (
        ("Udp.RcvbufErrors", "datagrams dropped", COLOURS[1]),
        ("TcpExt.ListenDrops", "connections dropped", COLOURS[3]),
    ):
        events.plot(times[1:], telemetry.rate(net("server", counter)), color=colour, label=f"{what} a second")
    if points := record.detail.get("arrivals"):
        share = [100 * n / points[-1][1] for _, n in points]
        events.plot(
            [record.window[0] - zero + at for at, _ in points], share, color=COLOURS[2], label="zones answered, %"
        )
    for axes in (used, sockets, events):
        axes.legend(fontsize=7, loc="upper right")
        axes.axvspan(record.window[0] - zero, record.window[1] - zero, color="#000000", alpha=0.04)
    events.set(xlabel="seconds")
    first = (
        f" First to saturate: {record.saturated[0][1]}, after {record.saturated[0][0]} s."
        if record.saturated
        else " Nothing saturated."
    )
    name = re.sub(r"\W+", "-", f"{source.id}-time-{treatment}")
    return Figure(
        name, svg(canvas), f"{treatment}: one start on one clock; the shaded stretch is its first window.{first}"
    )


def _pressure(telemetry: Telemetry) -> Floats:
    return telemetry.rate(lambda sample: sample["psi"]["cpu"] / 1e6)


def _number(level: str) -> float | None:
    try:
        number = float(level.rstrip("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
