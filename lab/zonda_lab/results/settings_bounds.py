"""Bounds that follow from the settings and trials of a window: what a time-out, a schedule or a busy generator cut off.

They are derived when records are read, so that records of earlier versions of the lab have them too.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zonda_lab.experiments.metrics import GOALS, level_value
from zonda_lab.results.window_record import Bound, WindowRecord

ANSWERED = 0.999  # share of the queries from which on a server answered all of them
BUSY = 0.9  # share of the generator's busiest thread above which it, and not the server, is the limit
ON_SCHEDULE = 0.9  # share of the scheduled rate above which only the last connections were slow
MAJORITY = 2  # trials that decide, as in `zonda-load query --find-peak`
ROUNDING = 1e-5  # of rates, which records keep with six digits
SEARCH_BOUND = "the generator could not send more, or a thread of it was over 90 % busy"
PROBES = 0.99  # share of the probes: with fewer answers, the 99th percentile of all is above that of the answered ones
# Latencies of queries, among which a query without an answer counts with the time-out.
QUANTILES = ("latency_p50_us", "latency_p99_us", "latency_p999_us", "uncorrected_p99_us")

LOSSES: Mapping[str, Bound] = {
    **dict.fromkeys(("answered_share", "answered_qps", "first_loss_qps"), "at least"),
    "lost": "at most",
}


def with_bounds(record: WindowRecord, described: Mapping[str, Any]) -> WindowRecord:
    """The record with the bounds that its settings imply; `described` is the manifest's entry of its experiment."""
    peaks = peak_bounds(record.detail)
    searched = {**peaks, **_first_loss(record), **_capacity(record)}
    record.bounds = {**_latencies(record, described), **_connections(record, described), **searched, **record.bounds}
    if any(record.detail["peaks"][name]["failed"] is not None for name in peaks):
        record.rig_bound = record.rig_bound or SEARCH_BOUND
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


def peak_bounds(detail: Mapping[str, Any]) -> dict[str, Bound]:
    """The peaks of a search whose deciding trials the generator limited, or that ended without a failure."""
    trials, peaks = detail.get("trials", ()), detail.get("peaks", {})
    return {name: "at least" for name, peak in peaks.items() if _is_generators(peak, trials, GOALS[name] / 100)}


def _is_generators(peak: Mapping[str, Any], trials: Sequence[Mapping[str, Any]], share: float) -> bool:
    """Whether the generator had no headroom at the rate that passed, or in most trials of the rate that failed."""
    failed, failure = peak.get("failed"), peak.get("failure")
    if failed is None or failure == "generator" or any(trial["busy"] > BUSY for trial in _at(peak["passed"], trials)):
        return True
    with_headroom = [trial for trial in _at(failed, trials) if trial["answered"] < share and trial["busy"] <= BUSY]
    return failure != "wrong" and sum(not trial["void_because"] for trial in with_headroom) < MAJORITY


def _first_loss(record: WindowRecord) -> dict[str, Bound]:
    """The first loss of a search, if a busy generator may have caused it, or if there was none."""
    trials, rate = record.detail.get("trials", ()), record.metrics.get("first_loss_qps")
    if rate is None or not trials:
        return {}
    lossy = [trial for trial in _at(rate, trials) if trial["answered"] < 1 and not trial["void_because"]]
    return {"first_loss_qps": "at least"} if all(trial["busy"] > BUSY for trial in lossy) else {}


def _at(rate: float, trials: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The trials at a rate."""
    return [trial for trial in trials if math.isclose(trial["rate"], rate, rel_tol=ROUNDING)]


def _capacity(record: WindowRecord) -> dict[str, Bound]:
    """The rate of a closed loop near that at which the generator is fully busy."""
    limit = record.metrics.get("generator_qps", math.inf)
    return {"capacity_qps": "at least"} if record.metrics.get("capacity_qps", 0.0) >= BUSY * limit else {}


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
