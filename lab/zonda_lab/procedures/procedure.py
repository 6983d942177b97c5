"""What a measurement procedure declares: its metrics, and how long it takes."""

from collections.abc import Callable
from dataclasses import dataclass

from zonda_lab.experiments.block_design import Start
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.window import Recorder

WINDOW_COST_S = 0.2  # start and end of the generator, telemetry at both ends, the server's sockets

# Of every window, whatever the procedure.
EVERY_WINDOW = (
    "server_cpu",
    "udp_drops",
    "listen_drops",
    "listen_overflows",
    "retransmissions",
    "kernel_queries",
    "kernel_answers",
    "server_wait_share",
    "generator_wait_share",
    "softirq_share",
    "steal_share",
    "cpu_pressure_share",
    "time_wait_max",
    "receive_buffer_kb",
)
LATENCIES = ("latency_p50_us", "latency_p99_us", "latency_p999_us")
QUERIES = (
    "offered_qps",
    "sent_qps",
    "answered_qps",
    "answered_share",
    "lost",
    "late_answers",
    "drain_s",
    "wrong",
    "cpu_us_per_query",
    "answers_per_cpu_s",
    "latency_mean_us",
    *LATENCIES,
    "uncorrected_p99_us",
    "schedule_error_p99_us",
    "connect_mean_us",
    "generator_busy",
    "capacity_qps",
    "echo_qps",
    "generator_qps",
)
MEMORY = ("rss_mb", "pss_mb", "peak_mb")
MEMORY_OF_ZONES = (*MEMORY, "bytes_per_record", "bytes_per_zone")


@dataclass(frozen=True)
class Procedure:
    """A way to measure a start."""

    run: Callable[[Harness, Recorder], None]
    metrics: tuple[str, ...]  # besides those of every window
    estimate_s: Callable[[Start], float]  # without starting the network and the server
    retries_itself: bool = False  # repeats invalid windows itself
    uses_echo: bool = False  # its windows are compared with an echo server in the same rig

    @property
    def all_metrics(self) -> frozenset[str]:
        """Every metric that its windows may have."""
        return frozenset(self.metrics + EVERY_WINDOW)
