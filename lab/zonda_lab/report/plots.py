"""The plots; experiments choose from `PLOTS` by name."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure as Canvas

from zonda_lab.analysis.analysis import Cell, metrics_of, tabulate
from zonda_lab.experiments.metrics import GOALS, METRICS, factor_words, level_value, words
from zonda_lab.load.latency_histogram import LatencyHistogram, read_log
from zonda_lab.report.document import Figure, slug
from zonda_lab.report.plot_style import COLOURS, PlotData, canvas_of, end_at, scale, starts, styles, svg, thousands
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.statistics import intervals
from zonda_lab.telemetry.series import Telemetry, net

PERCENTILES = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999]


def curve(data: PlotData) -> list[Figure]:
    """Share answered over the rate actually sent, with an isotonic fit."""
    canvas, axes = canvas_of()
    series = _series(data, "answered_share")
    for name, records, colour, marker in series:
        sent, share = zip(*itertools.chain.from_iterable(map(_answered, records)), strict=True)
        axes.plot(sent, share, linestyle="", alpha=0.5, markersize=4, color=colour, marker=marker)
        order = np.argsort(sent)
        axes.plot(np.array(sent)[order], intervals.falling(sent, share)[order], color=colour, label=name)
    if not axes.lines:
        return []
    axes.set(xlabel="queries sent per second", ylabel="answered, %")
    end_at(axes, "y", 100.0)
    axes.legend()
    n = starts([len({record.start for record in records}) for _, records, *_ in series])
    has_ramps = any("ramp" in record.detail for _, records, *_ in series for record in records)
    point = "interval of a window" if has_ramps else "window"
    caption = f"Response rate: one point per {point}, with the isotonic fit per server; {n}."
    return [_figure(data, "curve", canvas, caption)]


def _answered(record: WindowRecord) -> list[tuple[float, float]]:
    """The rate of a window, or the rates of a ramp, with the percentage answered."""
    window = [(record.metrics["sent_qps"], record.metrics["answered_share"])]
    return [(rate, 100 * share) for rate, share in record.detail.get("ramp", window)]


def lines(data: PlotData) -> list[Figure]:
    """Each metric over the x factor (medians and 95 % intervals); boxes if x has one level, or others than numbers."""
    levels = {record.levels.get(data.analysis.x, "") for record in data.records}
    plot = _line_plot if len(levels) > 1 and all(_number(level) is not None for level in levels) else _box_plot
    return list(filter(None, (plot(data, metric) for metric in _metrics(data))))


def boxes(data: PlotData) -> list[Figure]:
    """Each metric by treatment, one point per start."""
    return list(filter(None, (_box_plot(data, metric) for metric in _metrics(data))))


def bars(data: PlotData) -> list[Figure]:
    """Peak rates for each required share of answers."""
    found = {name: [cell for cell in tabulate(data.records, name) if not cell.copy] for name in GOALS}
    labels = list(dict.fromkeys(cell.label for cells in found.values() for cell in cells))
    if not labels:
        return []
    canvas, axes = canvas_of(height=0.6 + 0.55 * len(labels))
    titled = set[str]()  # once in the legend
    for offset, (name, colour) in enumerate(zip(GOALS, COLOURS, strict=False)):
        for cell in found[name]:
            row, (low, high) = labels.index(cell.label), _ends(cell)
            reach = [[cell.median - low], [high - cell.median]]
            title = None if name in titled else METRICS[name].title
            titled.add(name)
            axes.barh(row + (offset - 1.5) * 0.2, cell.median, 0.18, color=colour, xerr=reach, label=title)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set(xlabel="queries per second")
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    drawn = [cell for cells in found.values() for cell in cells]
    n = f"{starts([len(cell.values) for cell in drawn])}{_bounds(drawn)}"
    caption = "Highest rate at which the given share of queries was answered in two of three windows: medians, "
    return [_figure(data, "peaks", canvas, f"{caption}95 % intervals, {n}.")]


def latency(data: PlotData) -> list[Figure]:
    """Latency by percentile, from the intended (solid) and the actual send time (dotted)."""
    merged: dict[tuple[str, str], LatencyHistogram] = {}
    series = _series(replace(data, analysis=replace(data.analysis, x="")), "latency_p50_us")  # a line for each level
    for name, records, *_ in series:
        for record in records:
            path = data.folder / record.files.get("latency", "absent")
            for tag, histogram in read_log(path).items() if path.exists() else ():
                merged.setdefault((name, tag), LatencyHistogram()).merge(histogram)
    if not merged:
        return []
    canvas, axes = canvas_of()
    colours = {name: colour for name, _, colour, _ in series}
    for (name, tag), histogram in merged.items():
        values = [histogram.percentile(percent) for percent in PERCENTILES]
        x = [1 / (1 - percent / 100) for percent in PERCENTILES]
        style, title = (":", None) if tag == "actual" else ("-", name)
        axes.plot(x, values, style, color=colours[name], label=title)
    axes.set(xscale="log", yscale="log", xlabel="percentile", ylabel="latency, µs")
    axes.yaxis.set_major_formatter(thousands)
    axes.set_xticks([1, 2, 10, 100, 1000, 10_000, 100_000], ["0", "50", "90", "99", "99.9", "99.99", "99.999"])
    axes.legend()
    n = starts([len({record.start for record in found}) for _, found, *_ in series])
    caption = "Latency from the intended send time (solid) and from the actual send time (dotted); "
    return [_figure(data, "latency", canvas, f"{caption}lost queries count with the timeout; {n}.")]


def arrivals(data: PlotData) -> list[Figure]:
    """Zones transferred over time, one line per start."""
    canvas, axes = canvas_of()
    series, ends = _series(data, "zones_per_s", lambda record: bool(record.detail.get("arrivals"))), [0.0]
    for name, records, colour, _ in series:
        for number, record in enumerate(records):
            times, counts = zip(*record.detail["arrivals"], strict=True)
            end = max(times[-1], record.metrics["transfer_s"])  # later if some zones never arrived
            ends.append(end)
            x, y, title = [0, *times, end], [0, *counts, counts[-1]], None if number else name
            axes.step(x, y, where="post", color=colour, alpha=0.7, label=title)
    if not axes.lines:
        return []
    axes.set(xlabel="seconds since the secondary started", ylabel="zones answered")
    scale(axes, "x", ends)
    axes.legend()
    caption = f"Zones the secondary answers for, one line per start; {starts([len(found) for _, found, *_ in series])}."
    return [_figure(data, "arrivals", canvas, caption)]


def time(data: PlotData) -> list[Figure]:
    """A timeline of the first valid start of each treatment."""
    found, first = list[Figure](), dict[str, WindowRecord]()
    for record in data.records:
        if record.counts and not record.copy:
            first.setdefault(", ".join(record.treatment.values()), record)
    for treatment, record in first.items():
        path = data.folder / record.files.get("telemetry", "absent")
        telemetry = Telemetry.load(path) if path.exists() else Telemetry({}, [])
        if len(telemetry.samples) > 2:  # shorter starts have nothing to show
            found.append(_timeline(data, treatment, record, telemetry))
    return found


PLOTS: dict[str, Callable[[PlotData], list[Figure]]] = {
    "curve": curve,
    "lines": lines,
    "boxes": boxes,
    "bars": bars,
    "latency": latency,
    "time": time,
    "arrivals": arrivals,
}


def _figure(data: PlotData, name: str, canvas: Canvas, caption: str) -> Figure:
    return Figure(slug(f"{data.id}-{name}"), svg(canvas), caption)


def _metrics(data: PlotData) -> list[str]:
    """The metrics of the analysis, without `answered_share` if the curve shows it."""
    wanted = metrics_of(data.analysis)
    return [metric for metric in wanted if not (metric == "answered_share" and "curve" in data.analysis.plots)]


def _series(
    data: PlotData, metric: str, has_points: Callable[[WindowRecord], bool] = lambda _: True
) -> list[tuple[str, list[WindowRecord], str, str]]:
    """The valid windows with the metric and points, grouped by all factors but x, with a colour and a marker each."""
    groups: dict[str, list[WindowRecord]] = defaultdict(list)
    for record in data.records:
        if record.has(metric) and not record.copy and has_points(record):
            groups[_name(record.levels, data.analysis.x) or data.id].append(record)
    return [(name, groups[name], *style) for name, style in zip(groups, styles(list(groups)), strict=True)]


def _name(levels: Mapping[str, str], x: str) -> str:
    return words({factor: level for factor, level in levels.items() if factor != x})


def _line_plot(data: PlotData, metric: str) -> Figure | None:
    series: dict[str, list[Cell]] = defaultdict(list)
    for cell in tabulate(data.records, metric):
        if not cell.copy and _number(cell.levels.get(data.analysis.x, "")) is not None:
            series[_name(cell.levels, data.analysis.x)].append(cell)
    if not series:
        return None
    canvas, axes = canvas_of(height=3.4)
    for (name, cells), (colour, marker) in zip(series.items(), styles(list(series)), strict=True):
        cells.sort(key=lambda cell: _number(cell.levels[data.analysis.x]) or 0)
        x = [_number(cell.levels[data.analysis.x]) or 0 for cell in cells]
        axes.plot(x, [cell.median for cell in cells], color=colour, marker=marker, markersize=4, label=name or None)
        lows, highs = zip(*map(_ends, cells), strict=True)
        axes.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)
    all_cells = [cell for cells in series.values() for cell in cells]
    drawn = [number for cell in all_cells for number in (cell.median, _ends(cell)[1])]
    scale(axes, "y", drawn)
    end_at(axes, "y", METRICS[metric].most)
    levels = [cell.levels[data.analysis.x] for cell in all_cells]
    axes.set(xlabel=_x_label(data.analysis.x, levels), ylabel=METRICS[metric].axis)
    if any(series):
        axes.legend()
    n = f"{starts([len(cell.values) for cell in all_cells])}{_bounds(all_cells)}"
    return _figure(data, metric, canvas, f"{METRICS[metric].heading}: medians, 95 % intervals, {n}.")


def _box_plot(data: PlotData, metric: str) -> Figure | None:
    cells = tabulate(data.records, metric)
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
    scale(axes, "x", itertools.chain.from_iterable(values))
    end_at(axes, "x", METRICS[metric].most)
    n = starts(list(map(len, values)))
    caption = f"{METRICS[metric].heading}: one point per start, box: median and quartiles; {n}{_bounds(cells)}."
    return _figure(data, f"{metric}-boxes", canvas, caption)


def _x_label(factor: str, levels: Sequence[str]) -> str:
    """The title of the x axis; rates may be shares of the echo server's instead of queries per second."""
    title, _, unit = factor_words(factor).partition(", ")
    shares = all("%" in level for level in levels)
    return ", ".join(filter(None, (title, "% of the echo server's" if shares else unit)))


def _ends(cell: Cell) -> tuple[float, float]:
    """The interval as it is drawn: an open or unknown end is not."""
    low, high = (end if math.isfinite(end) else cell.median for end in (cell.low, cell.high))
    return min(low, cell.median), max(high, cell.median)


def _bounds(cells: Sequence[Cell]) -> str:
    """How many of the drawn values are only bounds."""
    count = sum(len(cell.sample.bounds) for cell in cells)
    return f"; {count} values are only bounds (at least or at most)" if count else ""


def _number(level: str) -> float | None:
    return level_value(level.partition("%")[0])


def _timeline(data: PlotData, treatment: str, record: WindowRecord, telemetry: Telemetry) -> Figure:
    zero, times = telemetry.times[0], telemetry.times - telemetry.times[0]
    canvas = Canvas(figsize=(8, 5), layout="constrained")
    used, sockets, events = canvas.subplots(3, 1, sharex=True)
    for label, colour in (("server", COLOURS[0]), ("load", COLOURS[1]), ("primary", COLOURS[2])):
        cores = telemetry.used_cores(label)
        if cores.any():
            used.plot(times[1:], cores, color=colour, label=label)
    waiting = telemetry.rate(lambda sample: sample["psi"]["cpu"] / 1e6)
    used.plot(times[1:], waiting, color=COLOURS[4], linestyle=":", label="share of time with a wait for a CPU")
    used.set(ylabel="CPUs used")
    sockets.plot(times, telemetry.gauge(net("server", "TCP.tw")), color=COLOURS[3], label="TIME_WAIT")
    sockets.plot(times, telemetry.gauge(net("server", "Tcp.CurrEstab")), color=COLOURS[6], label="established")
    sockets.set(ylabel="TCP sockets")
    for counter, what, colour in (
        ("Udp.RcvbufErrors", "datagrams dropped", COLOURS[1]),
        ("TcpExt.ListenDrops", "connections dropped", COLOURS[3]),
    ):
        events.plot(times[1:], telemetry.rate(net("server", counter)), color=colour, label=f"{what} per second")
    if points := record.detail.get("arrivals"):
        zones = points[-1][1] + record.metrics.get("zones_missing", 0.0)
        share = [100 * n / zones for _, n in points]
        at_s = [record.window[0] - zero + at for at, _ in points]
        events.plot(at_s, share, color=COLOURS[2], label="zones answered, %")
    for axes in (used, sockets, events):
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.yaxis.set_major_formatter(thousands)
        axes.axvspan(record.window[0] - zero, record.window[1] - zero, color="#000000", alpha=0.04)
    events.set(xlabel="seconds")
    first = " No saturation."
    if record.saturated:
        first = f" First to saturate: {record.saturated[0][1]}, {record.saturated[0][0]} s after the window began."
    return _figure(
        data, f"time-{treatment}", canvas, f"{treatment}: one start (n = 1); its first window is shaded.{first}"
    )
