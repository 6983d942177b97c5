"""Latency histograms: HdrHistogram V2 in base64, in nanoseconds, as `zonda-load` prints them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

LOWEST_NS, HIGHEST_NS, DIGITS = 1, 3_600_000_000_000, 3


class LatencyHistogram:
    """A latency histogram; its interface uses microseconds."""

    def __init__(self, encoded: str = "") -> None:
        self.histogram: Any = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
        if encoded:
            self.histogram.decode_and_add(encoded)

    def add(self, microseconds: float) -> None:
        """Adds one latency."""
        self.histogram.record_value(int(microseconds * 1000))

    def merge(self, other: "LatencyHistogram") -> None:
        """Adds all latencies of another histogram."""
        self.histogram.add(other.histogram)

    def encoded(self) -> str:
        """V2, compressed, base64."""
        encoded = self.histogram.encode()
        return encoded.decode() if isinstance(encoded, bytes) else str(encoded)

    @property
    def count(self) -> int:
        """The number of latencies."""
        return int(self.histogram.get_total_count())

    def percentile(self, percent: float) -> float:
        """The latency at a percentile, in microseconds."""
        return float(self.histogram.get_value_at_percentile(percent)) / 1000

    @property
    def mean(self) -> float:
        """The mean in microseconds; the library's version visits every bucket and takes 50 ms."""
        buckets = self.histogram
        counts = np.ctypeslib.as_array(buckets.counts)
        middle = (buckets._hdr_median_equiv_value(buckets.get_value_from_index(int(i))) for i in np.flatnonzero(counts))
        total = sum(int(count) * value for count, value in zip(counts[counts > 0], middle, strict=True))
        return float(total) / max(1, self.count) / 1000


def write_log(path: Path, began_s: float, seconds: float, histograms: Mapping[str, str]) -> None:
    """Writes an HdrHistogram log (format 1.2), one tagged line per histogram; maxima in milliseconds."""
    lines = [
        "#[Histogram log format version 1.2]",
        f"#[StartTime: {began_s:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for tag, encoded in histograms.items():
        highest_ms = LatencyHistogram(encoded).percentile(100) / 1000
        lines.append(f"Tag={tag},0.000,{seconds:.3f},{highest_ms:.3f},{encoded}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def read_log(path: Path) -> dict[str, LatencyHistogram]:
    """The histograms of a log by their tags."""
    found: dict[str, LatencyHistogram] = {}
    for line in path.read_text().splitlines():
        if line.startswith("Tag="):
            tag, _, rest = line[4:].partition(",")
            found.setdefault(tag, LatencyHistogram()).merge(LatencyHistogram(rest.rpartition(",")[2]))
    return found
