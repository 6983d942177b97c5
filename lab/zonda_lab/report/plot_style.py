"""Common to all plots: their data, colours, axes and SVG output."""

import io
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.report.number_format import span_text
from zonda_lab.results.window_record import WindowRecord

COLOURS = ("#0b6e99", "#d1495b", "#2e933c", "#8f5db7", "#e08e1a", "#4a5568", "#00a3a3", "#a0522d")
ROOM = 0.02  # beyond the end of an axis, as a share of its length: half a marker
MARKERS = "osD^vPX"  # one fewer than colours, so that 56 series differ in one of both
SERVERS = dict(zip(("zonda", "nsd", "knot", "bind", "yadifa", "pdns", "echo", "sink"), COLOURS, strict=True))
mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "zonda-lab",
        "text.parse_math": False,  # names of servers and levels may contain $
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
class PlotData:
    """The windows of one experiment and the folder of their files."""

    id: str
    records: Sequence[WindowRecord]
    analysis: AnalysisSpec
    folder: Path


def thousands(value: float, _: float) -> str:
    """An axis tick with thousands separated."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def svg(canvas: Canvas) -> str:
    """The plot as an SVG element; ids are unique, so several plots fit in one page."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    return re.sub(r"^.*?(?=<svg)", "", buffer.getvalue(), flags=re.DOTALL)


def canvas_of(height: float = 4.0) -> tuple[Canvas, Axes]:
    """An empty plot."""
    canvas = Canvas(figsize=(8.0, height))
    axes = canvas.add_subplot()
    axes.xaxis.set_major_formatter(thousands)
    axes.yaxis.set_major_formatter(thousands)
    return canvas, axes


Bar = tuple[str, float, tuple[float, float], str]  # name, value, interval, colour


def bars_of(panels: Sequence[tuple[str, Sequence[Bar], float | None]]) -> str:
    """Bar charts side by side, each with its title, bars and the value of a dashed line."""
    canvas = Canvas(figsize=(9, 1.2 + 0.42 * max(len(bars) for _, bars, _ in panels)), layout="constrained")
    for axes, (title, bars, line) in zip(canvas.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for row, (_, value, (low, high), colour) in enumerate(bars):
            axes.barh(row, value, 0.62, color=colour)
            if math.isfinite(high - low):
                axes.plot([low, high], [row, row], color="#1c2430", linewidth=1.4)
        if line is not None:
            axes.axvline(line, color="#4a5568", linestyle="--", linewidth=1.2)
        axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
        axes.invert_yaxis()
        axes.set_title(title, loc="left", fontsize=10)
        axes.xaxis.set_major_formatter(thousands)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(visible=False, axis="y")
    return svg(canvas)


def styles(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A colour and a marker for each name; a server has the same colour in every plot, and no other name has it."""
    taken = {SERVERS[name] for name in names if name in SERVERS}
    free = itertools.cycle([colour for colour in COLOURS if colour not in taken] or COLOURS)
    for name, marker in zip(names, itertools.cycle(MARKERS)):
        yield SERVERS.get(name) or next(free), marker


def scale(axes: Axes, which: Literal["x", "y"], values: Iterable[float]) -> None:
    """Makes an axis logarithmic if values span orders of magnitude, and linear up to the least one if some are 0."""
    drawn = list(values)
    positive = [value for value in drawn if value > 0]
    if not positive or max(positive) <= 50 * min(positive):
        return
    # A power of ten: other limits have the ticks of the next lower one, too close to 0.
    limit = 10.0 ** math.ceil(math.log10(min(positive)))
    logarithmic: dict[str, Any] = {"value": "log"} if min(drawn) > 0 else {"value": "symlog", "linthresh": limit}
    getattr(axes, f"set_{which}scale")(**logarithmic)
    getattr(axes, f"{which}axis").set_major_formatter(thousands)  # the scale's own are formulas


def end_at(axes: Axes, which: Literal["x", "y"], most: float) -> None:
    """Ends an axis that reaches above the highest possible value there, with room for whole markers."""
    axis = getattr(axes, f"{which}axis")
    low, high = sorted(map(float, axis.get_view_interval()))
    if high <= most:
        return
    getattr(axes, f"set_{which}lim")(low, most + ROOM * (most - low))
    axis.set_ticks([tick for tick in axis.get_ticklocs() if low <= tick <= most])
    axes.spines[{"x": "bottom", "y": "left"}[which]].set_bounds(low, most)


def starts(counts: Sequence[int]) -> str:
    """`n = 3 starts`."""
    low, high = min(counts, default=0), max(counts, default=0)
    return f"n = {span_text(low, high)} start{'s' if high != 1 else ''} each"
