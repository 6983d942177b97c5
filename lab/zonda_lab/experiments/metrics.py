"""All metrics of a window: title, unit and which direction is better."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One metric of a window."""

    title: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    is_latency: bool = False  # of queries, so invalid if the generator sent them late
    margin: float = 0.0  # if not 0, differences are absolute instead of ratios, and this is the equivalence margin
    capacity: bool = False  # a rate of queries, also shown as a share of what the echo server answers
    per_answer: bool = False  # a cost of an answer, which depends on the share of the queries that were answered
    most: float = math.inf  # no value is above it
    counted: bool = False  # a share of queries, connections or updates, of which a window has few or many
    repeats: str = ""  # the metric that it is a multiple of within a treatment, or of whose reciprocal

    @property
    def heading(self) -> str:
        """The title with a capital letter."""
        return self.title[0].upper() + self.title[1:]

    @property
    def axis(self) -> str:
        """The title with its unit, unless the title has it."""
        return f"{self.title}, {self.unit}" if self.unit not in ("", "/s") else self.title


FACTORS = {
    "server.name": "server",
    "server.workers": "workers",
    "server.settings": "settings",
    "rig.delay-ms": "delay, ms",
    "zones.zones": "zones",
    "zones.records": "records",
    "zones.signed": "signed",
    "queries.nxdomain": "share of NXDOMAIN",
    "queries.popularity": "popularity of names",
    "traffic.rate": "offered rate, q/s",
    "traffic.sources": "source addresses",
    "traffic.transport": "transport",
    "traffic.tcp-share": "share over TCP",
    "traffic.dnssec-ok": "share with DO",
    "traffic.queries-per-connection": "queries per connection (0: unlimited)",
    "primary.name": "primary",
    "primary.transport": "transport",
    "primary.changes-per-s": "changes per second on the primary",
    "change.updates-per-s": "updates per second",
}  # titles of the settings used as factors


def factor_words(name: str) -> str:
    """The title of a factor for axes and columns."""
    return FACTORS.get(name, name)


def column_words(name: str) -> str:
    """The head of a column of levels; rates, which may be shares of the echo server's, have units of their own."""
    return factor_words(name).removesuffix(", q/s")


def level_value(level: str) -> float | None:
    """The number that a level is; None if it is text."""
    try:
        number = float(level)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def level_number(level: str) -> str | None:
    """The number that a level is, with separated thousands; None if it is text."""
    number = level_value(level)
    return None if number is None else f"{number:,g}" if abs(number) < 1e6 else f"{number:,.0f}"


def level_words(name: str, level: str) -> str:
    """A level as text; a number or a second server is preceded by its factor's title, and a list is in quotes."""
    number = level_number(level)
    if name == "primary.name":
        return f"primary {level}"
    if number is None:
        return f"“{level}”" if ", " in level else level
    what, _, unit = factor_words(name).partition(", ")
    return f"{what} {number}{f' {unit}' if unit else ''}"


def baseline_words(name: str, level: str) -> str:
    """The level that others are compared with, in quotes if it is several words of its own."""
    return f"“{level}”" if " " in level and level_number(level) is None else level_words(name, level)


def words(levels: Mapping[str, str]) -> str:
    """The levels of several factors as text: `nsd, workers 2`."""
    return ", ".join(itertools.starmap(level_words, levels.items()))


WITHOUT_DNS = ("sink", "echo")  # programs without DNS that show the limits of the rig

# Peak rates: the percentage of the queries that must be answered.
GOALS = {"peak_100_qps": 100.0, "peak_9999_qps": 99.99, "peak_999_qps": 99.9, "peak_99_qps": 99.0}
OF_QUERIES = {
    "offered_qps": Metric("offered rate", "q/s", "neither"),
    "sent_qps": Metric("sent rate", "q/s", "neither"),
    "answered_qps": Metric("answered rate", "q/s", "higher", capacity=True),
    "answered_share": Metric("share of queries answered", "", "higher", margin=0.001, most=1.0, counted=True),
    "lost": Metric("queries without an answer", "", "lower"),
    "late_answers": Metric("answers after sending had stopped", "", "lower"),
    "drain_s": Metric("time to drain buffers after sending had stopped", "s", "lower"),
    "wrong": Metric("wrong answers", "", "lower"),
    "cpu_us_per_query": Metric("server CPU time per answer", "µs", "lower", per_answer=True),
    "processor_us_per_query": Metric("time of the server's CPUs per answer", "µs", "lower", per_answer=True),
    "answers_per_cpu_s": Metric(
        "answers per second of server CPU time", "/s", "higher", per_answer=True, repeats="cpu_us_per_query"
    ),
    "latency_mean_us": Metric("mean latency", "µs", "lower", is_latency=True),
    "latency_p50_us": Metric("median latency from the intended send time", "µs", "lower", is_latency=True),
    "latency_p99_us": Metric("99th percentile latency from the intended send time", "µs", "lower", is_latency=True),
    "latency_p999_us": Metric("99.9th percentile latency from the intended send time", "µs", "lower", is_latency=True),
    "uncorrected_p99_us": Metric("99th percentile latency from the actual send time", "µs", "lower", is_latency=True),
    "schedule_error_p99_us": Metric("99th percentile schedule error of the generator", "µs", "lower"),
    "connect_mean_us": Metric("mean connection latency", "µs", "lower", is_latency=True),
    "generator_busy": Metric("share of the window in which the generator was busy", "", "neither", most=1.0),
    "capacity_qps": Metric("closed-loop capacity of this start", "q/s", "higher", capacity=True),
    "echo_qps": Metric("closed-loop capacity of the echo server", "q/s", "neither"),
    "generator_qps": Metric("rate at which the generator would be fully busy", "q/s", "neither"),
}
OF_EVERY_WINDOW = {
    "server_cpu": Metric("CPU used by the server", "cores", "neither"),
    "softirq_share": Metric("share of all CPU time in softirq", "", "neither", margin=0.02, most=1.0),
    # Sums over threads, which may be more than 1.
    "generator_wait_share": Metric("share of the window in which the generator waited for a CPU", "", "lower"),
    "server_wait_share": Metric("share of the window in which the server waited for a CPU", "", "lower"),
    "cpu_pressure_share": Metric("share of the window in which any program waited for a CPU", "", "lower", most=1.0),
    "steal_share": Metric("share of all CPU time taken by the hypervisor", "", "lower", most=1.0),
    "kernel_queries": Metric("packets received by the server's kernel", "", "neither"),
    "kernel_answers": Metric("packets received by the client's kernel", "", "neither"),
    "receive_buffer_kb": Metric("UDP receive buffer of the server", "KiB", "neither"),
    "udp_drops": Metric("datagrams dropped at the server's sockets", "", "lower"),
    "listen_drops": Metric("connections dropped at the listener", "", "lower"),
    "listen_overflows": Metric("overflows of the listen queue", "", "lower"),
    "retransmissions": Metric("TCP segments sent again by the server", "", "lower"),
    "tcp_sockets_max": Metric("maximum TCP sockets of the server in use, listening ones included", "", "neither"),
    "time_wait_max": Metric("maximum sockets in TIME_WAIT", "", "neither"),
}
OF_MEMORY = {
    "rss_mb": Metric("resident memory, shared pages counted in each process", "MiB", "lower"),
    "pss_mb": Metric("resident memory, shared pages counted once (PSS)", "MiB", "lower"),
    "peak_mb": Metric("highest resident memory, shared pages counted in each process", "MiB", "lower"),
}
METRICS = {
    **OF_QUERIES,
    **OF_EVERY_WINDOW,
    **OF_MEMORY,
    # peak rates, by required share of answers
    "peak_100_qps": Metric("highest rate with 100 % answered", "q/s", "higher", capacity=True),
    "peak_9999_qps": Metric("highest rate with 99.99 % answered", "q/s", "higher", capacity=True),
    "peak_999_qps": Metric("highest rate with 99.9 % answered", "q/s", "higher", capacity=True),
    "peak_99_qps": Metric("highest rate with 99 % answered", "q/s", "higher", capacity=True),
    "first_loss_qps": Metric("lowest rate with a lost query in any window", "q/s", "higher", capacity=True),
    # of zones
    "bytes_per_record": Metric("all memory of the server, per record", "bytes", "lower"),
    "bytes_per_zone": Metric("all memory of the server, per zone", "bytes", "lower", repeats="bytes_per_record"),
    "first_answer_s": Metric("start to first answer", "s", "lower"),
    "all_zones_s": Metric("start to answers for all zones", "s", "lower"),
    "start_cpu_s": Metric("CPU time until all zones were answered", "s", "lower"),
    "transfer_s": Metric("time to transfer all zones", "s", "lower"),
    "records_per_s": Metric("records transferred per second", "/s", "higher", repeats="transfer_s"),
    "reload_s": Metric("time until a changed zone is served", "s", "lower"),
    "zones_per_s": Metric("zones transferred per second", "/s", "higher", repeats="transfer_s"),
    "bytes_per_message": Metric("length of transfer messages", "bytes", "neither"),
    "records_per_message": Metric("records per transfer message", "", "neither"),
    "cpu_us_per_record": Metric("server CPU time per transferred record", "µs", "lower"),
    "primary_cpu_us_per_record": Metric("CPU time of the primary per transferred record", "µs", "lower"),
    "primary_secondary_ratio": Metric("CPU time of the primary as a multiple of the secondary's", "", "neither"),
    "restart_s": Metric("restart with stored data to answers for all zones", "s", "lower"),
    "zones_missing": Metric("zones that never arrived", "", "lower"),
    "propagation_p50_ms": Metric("median time from change to new answer", "ms", "lower"),
    "propagation_p99_ms": Metric("99th percentile time from change to new answer", "ms", "lower"),
    "propagation_max_ms": Metric("longest time from change to new answer", "ms", "lower"),
    # connections
    "server_cpu_after": Metric("CPU used by the server in the second after the load", "cores", "lower"),
    "bytes_per_connection": Metric("server memory per idle connection", "bytes", "lower"),
    "kernel_bytes_per_connection": Metric("kernel memory per idle connection, both ends", "bytes", "lower"),
    "kernel_slab_bytes_per_connection": Metric("the same without socket buffers", "bytes", "lower"),
    "connections_open": Metric("connections open", "", "higher"),
    "connects_per_s": Metric("connections accepted per second", "/s", "higher"),
    "probe_p99_us": Metric("99th percentile latency of UDP probes meanwhile", "µs", "lower"),
    "answered_s": Metric("time until all connections are answered", "s", "lower"),
    "late_share": Metric(
        "share of connections whose handshake took over a second", "", "lower", margin=0.01, most=1.0, counted=True
    ),
    "failed_share": Metric("share of connections that failed", "", "lower", margin=0.01, most=1.0, counted=True),
    "forgotten_s": Metric("time until the kernel has dropped connections without a client", "s", "lower"),
    "sockets_left": Metric("sockets left of connections without a client", "", "neither"),
    "reclaim_s": Metric("time until idle connections are closed", "s", "lower"),
    "udp_answered_share": Metric("share of UDP queries answered", "", "higher", margin=0.005, most=1.0, counted=True),
    "tcp_recovery_s": Metric("time until TCP answers again", "s", "lower"),
    "transfers_per_s": Metric("zone transfers out completed per second", "/s", "higher"),
    "versions_per_s": Metric("new versions of a zone that were served per second", "/s", "higher"),
    "updates_per_s": Metric("successful updates per second", "/s", "higher"),
    "updates_failed_share": Metric("share of updates that failed", "", "lower", margin=0.001, most=1.0, counted=True),
}
