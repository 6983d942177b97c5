"""One measurement window and its metrics, before validation."""

from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from zonda_lab.experiments.definition import Settings
from zonda_lab.load.latency_histogram import LatencyHistogram
from zonda_lab.load.result import LoadResult
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.results.window_record import Bound
from zonda_lab.rig.host import Network
from zonda_lab.telemetry.series import PACKETS, Telemetry, net

LEAST_SERVER_CPU = 0.1  # CPUs used by the server; the lab and the kernel use some thousandths of its CPUs


@dataclass(frozen=True)
class PlannedWindow:
    """The levels within a start and the settings of a window; `copy` is 1 for the second baseline of the start."""

    levels: dict[str, str]
    settings: Settings
    copy: int = 0


@dataclass
class Window:
    """One window as measured."""

    span: Span
    metrics: dict[str, float]
    result: LoadResult | None = None
    within: dict[str, str] = field(default_factory=dict)
    copy: int = 0  # 1: the second baseline of this start
    died: bool = False
    invalid: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bounds: dict[str, Bound] = field(default_factory=dict)
    rig_bound: str = ""  # why the rig and not the server was the limit
    later: dict[str, Span] = field(default_factory=dict)  # what was measured after its span, by name
    load_s: float = 0.0  # how long queries were sent; 0: during the whole span
    predictions: dict[str, float] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)

    def measured_as(self, planned: PlannedWindow) -> Self:
        """This window, as the planned one."""
        self.within, self.copy = planned.levels, planned.copy
        return self


def window_of(server: Server, span: Span, metrics: dict[str, float], **more: Any) -> Window:
    """A window with these metrics, which notes whether the server has died and how it was configured."""
    window = Window(span, metrics, died=not server.process.alive, **more)
    buffers = [found["receive_buffer"] for found in server.sockets if found["kind"] == "udp"]
    if buffers:  # the smallest that clients can meet
        window.metrics["receive_buffer_kb"] = min(buffers) / 1024
    tuning = server.installed.adapter.tuning(server.config) if server.config.tuned else []
    window.detail["settings"] = {
        "settings": "tuned" if server.config.tuned else "defaults",
        "lines": [[line.text, line.why] for line in tuning],
        "sockets": server.sockets,
    }
    return window


class Recorder(Protocol):
    """Receives the windows of one start."""

    @property
    def windows(self) -> list[PlannedWindow]:
        """The planned windows, in their order."""

    def add(self, window: Window, attempt: int = 0) -> bool:
        """Validates and records a window; False if it is not valid for the primary metric."""

    def skip(self, why: str, planned: PlannedWindow | None = None) -> None:
        """Records a window that is not supported."""


def query_metrics(result: LoadResult, span: Span, offered: float | None) -> dict[str, float]:
    """The metrics of a window of queries.

    Only answers within the window count. Later ones come from buffers that the server drains after the load; they cost
    CPU time too, so the CPU time per answer is over all of them.
    """
    scheduled = max(result.scheduled or 0, result.sent)
    every = max(1, result.answered + result.late_answers)
    metrics = {
        "sent_qps": result.sent / result.seconds,
        "answered_qps": result.answered / result.seconds,
        "answered_share": result.answered / scheduled if scheduled else 0.0,
        "lost": float(result.sent - result.answered - result.late_answers),
        "late_answers": float(result.late_answers),
        "drain_s": result.late_answers / max(1, result.answered) * result.seconds,
        "wrong": float(result.wrong),
        "cpu_us_per_query": span.server_cpu_s * 1e6 / every,
    }
    if span.server_cpu_s:
        metrics["answers_per_cpu_s"] = (result.answered + result.late_answers) / span.server_cpu_s
    optional = {
        "offered_qps": offered,
        "latency_mean_us": result.latency_mean_us,
        "schedule_error_p99_us": result.schedule_error_p99_us,
        "connect_mean_us": result.connect_mean_us,
        "generator_busy": result.busy,
    }
    metrics.update({name: value for name, value in optional.items() if value is not None})
    if result.latency_intended:
        intended = LatencyHistogram(result.latency_intended)
        for name, percent in (("p50", 50.0), ("p99", 99.0), ("p999", 99.9)):
            metrics[f"latency_{name}_us"] = intended.percentile(percent)
    if result.latency_actual:
        metrics["uncorrected_p99_us"] = LatencyHistogram(result.latency_actual).percentile(99.0)
    return metrics


def machine_metrics(telemetry: Telemetry, span: Span, load_s: float = 0.0) -> dict[str, float]:
    """The metrics that every window has, from the samples before and after it."""
    metrics = {"server_cpu": span.server_cpu_s / (load_s or span.seconds)}
    if len(telemetry.samples) < 2:
        return metrics
    for name, end, counter in (
        ("udp_drops", "server", "Udp.RcvbufErrors"),
        ("listen_drops", "server", "TcpExt.ListenDrops"),
        ("listen_overflows", "server", "TcpExt.ListenOverflows"),
        ("retransmissions", "server", "Tcp.RetransSegs"),
        ("kernel_queries", "server", PACKETS),
        ("kernel_answers", "client", PACKETS),
    ):
        metrics[name] = telemetry.grown(net(end, counter))
    for label, name in (("server", "server_wait_share"), ("load", "generator_wait_share")):
        metrics[name] = telemetry.waited_s(label) / span.seconds
    metrics["softirq_share"] = telemetry.cpu_share("softirq")
    metrics["steal_share"] = telemetry.cpu_share("steal")
    metrics["cpu_pressure_share"] = telemetry.grown(lambda sample: sample["psi"]["cpu"]) / 1e6 / span.seconds
    for name, kind in (("time_wait_max", "TCP.tw"), ("tcp_sockets_max", "TCP.inuse")):
        metrics[name] = float(telemetry.gauge(net("server", kind)).max())
    return metrics


def processor_metrics(telemetry: Telemetry, network: Network, window: Window) -> dict[str, float]:
    """The time of the server's CPUs per answer, softirqs included, which belong to no process.

    Only if the generator has other CPUs, and the server uses so much that the rest hardly matters.
    """
    result, server_cpu = window.result, window.span.server_cpu_s / (window.load_s or window.span.seconds)
    answers = result.answered + result.late_answers if result else 0
    is_shared = bool({*network.server_cpus} & {*network.load_cpus})
    if not answers or len(telemetry.samples) < 2 or is_shared or server_cpu < LEAST_SERVER_CPU:
        return {}
    return {"processor_us_per_query": telemetry.busy_s(network.server_cpus) * 1e6 / answers}


def counters(telemetry: Telemetry) -> dict[str, dict[str, int]]:
    """The growth of all kernel counters of both ends from before to after the window."""
    if len(telemetry.samples) < 2:
        return {}
    first, last = telemetry.samples[0]["net"], telemetry.samples[-1]["net"]
    grown = {end: {name: last[end][name] - first[end].get(name, 0) for name in last[end]} for end in last}
    return {end: {name: growth for name, growth in found.items() if growth} for end, found in grown.items()}


def memory_metrics(server: Server, before_kb: int = 0, **counts: int) -> dict[str, float]:
    """The current memory of the server: in total (MiB), and for one of each thing counted (octets of PSS).

    RSS and its peak are sums over the processes, so that they count a shared page once per process.
    """
    memory = server.process.memory()
    grown = (memory.pss_kb - before_kb) * 1024
    total = {"rss_mb": memory.rss_kb / 1024, "pss_mb": memory.pss_kb / 1024, "peak_mb": memory.peak_kb / 1024}
    return total | {f"bytes_per_{name}": grown / count for name, count in counts.items() if count}
