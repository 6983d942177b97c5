"""Bounds that follow from the settings of a window: a time-out, the schedule or a busy generator cut off its values.

They are derived when records are read, so that records of earlier versions of the lab have them too.
"""

from collections.abc import Mapping
from typing import Any

from zonda_lab.experiments.metrics import level_value
from zonda_lab.results.window_record import Bound, WindowRecord

ANSWERED = 0.999  # share of the queries from which on a server answered all of them
BUSY = 0.9  # share of the generator's busiest thread above which it, and not the server, is the limit
ON_SCHEDULE = 0.9  # share of the scheduled rate above which only the last connections were slow
PROBES = 0.99  # share of the probes: with fewer answers, the 99th percentile of all is above that of the answered ones
# Latencies of queries, among which a query without an answer counts with the time-out.
QUANTILES = ("latency_p50_us", "latency_p99_us", "latency_p999_us", "uncorrected_p99_us")

LOSSES: Mapping[str, Bound] = {
    **dict.fromkeys(("answered_share", "answered_qps", "first_loss_qps"), "at least"),
    "lost": "at most",
}


def bounded(record: WindowRecord, described: Mapping[str, Any]) -> WindowRecord:
    """The record with the bounds that its settings imply; `described` is the manifest's entry of its experiment."""
    record.bounds = {**_latencies(record, described), **_connections(record, described), **record.bounds}
    if busy := _busy(record, described):
        record.rig_bound = record.rig_bound or busy
        record.bounds = {**LOSSES, **record.bounds}
    return record


def setting(described: Mapping[str, Any], levels: Mapping[str, str], key: str) -> Any:
    """A setting such as `traffic.timeout-ms` at these levels; None if the manifest does not have it."""
    section, name = key.split(".")
    value = described.get("settings", {}).get(section, {}).get(name.replace("-", "_"))
    factors = {**described.get("factors", {}), **described.get("within", {})}
    for factor, level in levels.items():
        if factor == key:
            number = level_value(level)
            unlisted = level if number is None else number
            value = next((each for each in factors.get(key, ()) if str(each) == level), unlisted)
        elif isinstance(named := factors.get(factor), Mapping):
            value = named.get(level, {}).get(section, {}).get(name, value)
    return value


def _latencies(record: WindowRecord, described: Mapping[str, Any]) -> dict[str, Bound]:
    """Quantiles that reached the time-out, which then stands for them, and means over time-outs."""
    metrics, found = record.metrics, dict[str, Bound]()
    timeout_us = (setting(described, record.levels, "traffic.timeout-ms") or float("inf")) * 1000.0
    for name in QUANTILES:
        if metrics.get(name, 0.0) >= timeout_us:
            metrics[name], found[name] = timeout_us, "at least"
    if "latency_mean_us" in metrics and metrics.get("answered_share", 1.0) < ANSWERED:
        found["latency_mean_us"] = "at least"
    if "probe_p99_us" in metrics and metrics.get("udp_answered_share", 1.0) < PROBES:
        found["probe_p99_us"] = "at least"
    return found


def _connections(record: WindowRecord, described: Mapping[str, Any]) -> dict[str, Bound]:
    """All connections were accepted at the rate of the schedule: the server could have had more, and faster."""
    found = dict[str, Bound]()
    for metric, key, share in (
        ("connects_per_s", "change.connect-rate", ON_SCHEDULE),
        ("connections_open", "change.connections", 1.0),
    ):
        planned = setting(described, record.levels, key)
        if planned and record.metrics.get(metric, 0.0) >= share * planned:
            found[metric] = "at least"
    return found


def _busy(record: WindowRecord, described: Mapping[str, Any]) -> str:
    """Why the generator may have caused losses of an open loop; empty if it had headroom, or the server had none.

    A server that used a larger share of its CPU time than the share of the queries it answered would have lost
    queries with all of its CPU time, too.
    """
    metrics, loop = record.metrics, setting(described, record.levels, "traffic.loop")
    busy, answered = metrics.get("generator_busy", 0.0), metrics.get("answered_share", 1.0)
    cores = len(set(setting(described, record.levels, "rig.server-cpus") or ()))
    is_overloaded = cores and metrics.get("server_cpu", 0.0) / cores > answered
    if loop != "open" or busy <= BUSY or answered >= 1.0 or is_overloaded:
        return ""
    return f"a thread of the generator was over {BUSY:.0%} busy, and late queries arrive in batches"
