"""One measurement window and its metrics, before validation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from zonda_lab.experiment import Settings
from zonda_lab.harness import Server, Span
from zonda_lab.latency_histogram import LatencyHistogram
from zonda_lab.load_generator import LoadResult
from zonda_lab.telemetry_series import Telemetry, net


@dataclass
class Window:
    """One window as measured."""

    span: Span
    metrics: dict[str, float]
    result: LoadResult | None = None
    within: dict[str, str] = field(default_factory=dict)
    died: bool = False
    invalid: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    predictions: dict[str, float] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)


def window_of(server: Server, span: Span, metrics: dict[str, float], **more: Any) -> Window:
    """A window with these metrics, which notes whether the server has died."""
    return Window(span, metrics, died=not server.process.alive, **more)


class Recorder(Protocol):
    """Receives the windows of one start."""

    @property
    def windows(self) -> list[tuple[dict[str, str], Settings]]:
        """The levels and settings of each planned window."""

    def add(self, window: Window, attempt: int = 0) -> bool:
        """Validates and records a window; False if it is not valid for the primary metric."""

    def skip(self, why: str, within: dict[str, str]) -> None:
        """Records a window that is not supported."""


def query_metrics(result: LoadResult, span: Span, offered: float | None) -> dict[str, float]:
    """The metrics of a window of queries."""
    metrics = {
        "sent_qps": result.sent / result.seconds,
        "answered_qps": result.answered / result.seconds,
        "answered_share": result.answered / result.sent if result.sent else 0.0,
        "lost": float(result.sent - result.answered),
        "wrong": float(result.wrong),
        "cpu_us_per_query": span.server_cpu_s * 1e6 / max(1, result.answered),
    }
    optional = {
        "offered_qps": offered,
        "latency_mean_us": result.latency_mean_us,
        "schedule_error_p99_us": result.schedule_error_p99_us,
        "connect_mean_us": result.connect_mean_us,
    }
    metrics.update({name: value for name, value in optional.items() if value is not None})
    if result.latency_intended:
        intended = LatencyHistogram(result.latency_intended)
        for name, percent in (("p50", 50.0), ("p99", 99.0), ("p999", 99.9)):
            metrics[f"latency_{name}_us"] = intended.percentile(percent)
    if result.latency_actual:
        metrics["uncorrected_p99_us"] = LatencyHistogram(result.latency_actual).percentile(99.0)
    return metrics


def machine_metrics(telemetry: Telemetry, span: Span) -> dict[str, float]:
    """The metrics that every window has."""
    metrics = {"server_cpu": span.server_cpu_s / span.seconds}
    if len(telemetry.samples) > 1:
        metrics["softirq_share"] = telemetry.cpu_share("softirq")
        metrics["udp_drops"] = telemetry.grown(net("server", "Udp.RcvbufErrors"))
        metrics["listen_drops"] = telemetry.grown(net("server", "TcpExt.ListenDrops"))
        metrics["time_wait_max"] = float(telemetry.gauge(net("server", "TCP.tw")).max())
    return metrics


def memory_metrics(
    server: Server, records: int, zones: int, connections: int = 0, before_kb: int = 0
) -> dict[str, float]:
    """The current memory of the server, in total and per record, zone or connection."""
    memory = server.process.memory()
    metrics = {"rss_mb": memory.rss_kb / 1024, "pss_mb": memory.pss_kb / 1024, "peak_mb": memory.peak_kb / 1024}
    if records:
        metrics["bytes_per_record"] = memory.pss_kb * 1024 / records
    if zones:
        metrics["bytes_per_zone"] = memory.pss_kb * 1024 / zones
    if connections:
        metrics["bytes_per_connection"] = (memory.pss_kb - before_kb) * 1024 / connections
    return metrics
