"""Latency histograms: HdrHistogram V2 in base64, values in nanoseconds, as `zonda-load` prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

LOWEST_NS, HIGHEST_NS, DIGITS = 1, 3_600_000_000_000, 3


class Latency:
    """A histogram of latencies; what goes in and comes out is in microseconds."""

    def __init__(self, encoded: str = "") -> None:
        self.histogram: Any = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
        if encoded:
            self.histogram.decode_and_add(encoded)

    def add(self, microseconds: float) -> None:
        """Counts one latency."""
        self.histogram.record_value(int(microseconds * 1000))

    def merge(self, other: Latency) -> None:
        """Adds all latencies of another histogram."""
        self.histogram.add(other.histogram)

    def encoded(self) -> str:
        """V2, compressed, base64."""
        encoded = self.histogram.encode()
        return encoded.decode() if isinstance(encoded, bytes) else str(encoded)

    @property
    def count(self) -> int:
        """How many latencies there are."""
        return int(self.histogram.get_total_count())

    def percentile(self, percent: float) -> float:
        """The latency that `percent` of all do not exceed, in microseconds."""
        return float(self.histogram.get_value_at_percentile(percent)) / 1000

    @property
    def mean(self) -> float:
        """The mean, in microseconds."""
        return float(self.histogram.get_mean_value()) / 1000


def write_log(path: Path, began_s: float, histograms: dict[str, str]) -> None:
    """An HdrHistogram log that other tools read, one tagged line a histogram."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        writer = HistogramLogWriter(file)
        writer.output_log_format_version()
        writer.output_base_time(began_s * 1000)
        writer.output_start_time(began_s * 1000)
        writer.output_legend()
        for tag, encoded in histograms.items():
            histogram = Latency(encoded).histogram
            histogram.set_tag(tag)
            histogram.set_start_time_stamp(began_s * 1000)
            histogram.set_end_time_stamp(began_s * 1000)
            writer.output_interval_histogram(histogram)


def read_log(path: Path) -> dict[str, Latency]:
    """The histograms of a log by their tags."""
    found: dict[str, Latency] = {}
    for line in path.read_text().splitlines():
        if line.startswith("Tag="):
            tag, _, rest = line[4:].partition(",")
            found.setdefault(tag, Latency()).merge(Latency(rest.rpartition(",")[2]))
    return found
