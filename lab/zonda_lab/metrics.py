"""Every figure that a window can yield: its unit, which way is better, what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One figure of a window."""

    title: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    is_latency: bool = False  # of queries, so that it is spoilt where they left late

    @property
    def heading(self) -> str:
        """The title as a sentence begins."""
        return self.title[0].upper() + self.title[1:]

    @property
    def axis(self) -> str:
        """The title with its unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


FACTORS = {
    "server.name": "server",
    "server.workers": "workers",
    "zones.zones": "zones",
    "zones.records": "records",
    "zones.signed": "signed",
    "queries.nxdomain": "share of NXDOMAIN",
    "queries.popularity": "popularity of names",
    "traffic.rate": "asked rate, q/s",
    "traffic.sources": "source addresses",
    "traffic.transport": "transport",
    "traffic.tcp-share": "share over TCP",
    "traffic.dnssec-ok": "share with DO",
    "traffic.queries-per-connection": "queries a connection (0: any number)",
    "primary.transport": "transport",
    "change.updates-per-s": "updates a second",
}  # what readers call the factors that are settings


def factor_words(name: str) -> str:
    """A factor's name as an axis or a column has it."""
    return FACTORS.get(name, name)


def level_words(name: str, level: str) -> str:
    """A level as it can stand alone: a bare number gets its factor's name and its thousands apart."""
    try:
        number = float(level)
    except ValueError:
        return level
    what, _, unit = factor_words(name).partition(", ")
    return f"{what} {number:,g}{f' {unit}' if unit else ''}" if abs(number) < 1e6 else f"{what} {number:,.0f}"


METRICS: dict[str, Metric] = {
    # queries
    "offered_qps": Metric("asked rate", "q/s", "neither"),
    "sent_qps": Metric("sent rate", "q/s", "neither"),
    "answered_qps": Metric("answered rate", "q/s", "higher"),
    "answered_share": Metric("share of queries answered", "", "higher"),
    "lost": Metric("queries without an answer", "", "lower"),
    "wrong": Metric("answers that are wrong", "", "lower"),
    "cpu_us_per_query": Metric("server CPU time per answer", "µs", "lower"),
    "latency_mean_us": Metric("mean latency", "µs", "lower", is_latency=True),
    "latency_p50_us": Metric("median latency from the intended send", "µs", "lower", is_latency=True),
    "latency_p99_us": Metric("99 % latency from the intended send", "µs", "lower", is_latency=True),
    "latency_p999_us": Metric("99.9 % latency from the intended send", "µs", "lower", is_latency=True),
    "uncorrected_p99_us": Metric("99 % latency from the actual send", "µs", "lower", is_latency=True),
    "schedule_error_p99_us": Metric("99 % schedule error of the generator", "µs", "lower"),
    "connect_mean_us": Metric("mean connection latency", "µs", "lower", is_latency=True),
    "capacity_qps": Metric("closed-loop capacity of this start", "q/s", "higher"),
    # the highest rate with so large a share answered
    "peak_100_qps": Metric("highest rate with 100 % answered", "q/s", "higher"),
    "peak_9999_qps": Metric("highest rate with 99.99 % answered", "q/s", "higher"),
    "peak_999_qps": Metric("highest rate with 99.9 % answered", "q/s", "higher"),
    "peak_99_qps": Metric("highest rate with 99 % answered", "q/s", "higher"),
    "first_loss_qps": Metric("lowest rate that lost a query", "q/s", "higher"),
    # the machine
    "server_cpu": Metric("CPU used by the server", "cores", "neither"),
    "softirq_share": Metric("share of all CPU time in softirq", "", "neither"),
    "udp_drops": Metric("datagrams dropped at the server's sockets", "", "lower"),
    "listen_drops": Metric("connections dropped at the listener", "", "lower"),
    "time_wait_max": Metric("most sockets in TIME_WAIT", "", "neither"),
    # memory
    "rss_mb": Metric("resident memory", "MB", "lower"),
    "pss_mb": Metric("proportional memory", "MB", "lower"),
    "peak_mb": Metric("highest resident memory", "MB", "lower"),
    "bytes_per_record": Metric("memory per record", "bytes", "lower"),
    "bytes_per_zone": Metric("memory per zone", "bytes", "lower"),
    "bytes_per_connection": Metric("server memory per idle connection", "bytes", "lower"),
    "kernel_bytes_per_connection": Metric("kernel memory per idle connection, both ends", "bytes", "lower"),
    # time
    "first_answer_s": Metric("start to first answer", "s", "lower"),
    "all_zones_s": Metric("start to every zone answered", "s", "lower"),
    "start_cpu_s": Metric("CPU time until every zone was answered", "s", "lower"),
    "transfer_s": Metric("time to transfer everything", "s", "lower"),
    "records_per_s": Metric("records transferred in a second", "/s", "higher"),
    "reload_s": Metric("time until a changed zone is served", "s", "lower"),
    "zones_per_s": Metric("zones transferred in a second", "/s", "higher"),
    "bytes_per_message": Metric("bytes in a transfer message", "bytes", "neither"),
    "records_per_message": Metric("records in a transfer message", "", "neither"),
    "cpu_us_per_record": Metric("server CPU time per transferred record", "µs", "lower"),
    "zones_missing": Metric("zones that never arrived", "", "lower"),
    "propagation_p50_ms": Metric("median time from change to new answer", "ms", "lower"),
    "propagation_p99_ms": Metric("99 % time from change to new answer", "ms", "lower"),
    # connections
    "connections_open": Metric("connections open", "", "higher"),
    "connects_per_s": Metric("connections accepted in a second", "/s", "higher"),
    "probe_p99_us": Metric("99 % latency of a probe meanwhile", "µs", "lower"),
    "reclaim_s": Metric("time until idle connections are given back", "s", "lower"),
    "udp_answered_share": Metric("share of UDP queries answered meanwhile", "", "higher"),
    "tcp_recovery_s": Metric("time until TCP is accepted again", "s", "lower"),
    "updates_per_s": Metric("updates done in a second", "/s", "higher"),
}
