"""What a load generator measured: the JSON lines of `zonda-load` (LOAD-CONTRACT.md), and the sum of several players."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.load.latency_histogram import LatencyHistogram


@dataclass
class LoadResult:
    """What a load generator measured; None where it does not report a value."""

    sent: int
    answered: int  # within the window
    seconds: float
    scheduled: float | None = None
    wrong: int = 0
    wrong_examples: list[str] = field(default_factory=list)
    rcodes: dict[str, int] = field(default_factory=dict)
    latency_mean_us: float | None = None
    latency_intended: str = ""
    latency_actual: str = ""
    schedule_error_p99_us: float | None = None
    connect_mean_us: float | None = None
    handshakes: int = 0  # connections that were established; `connect_mean_us` is their mean
    invalid: list[str] = field(default_factory=list)
    late_answers: int = 0  # after sending had stopped
    busy: float | None = None  # of the busiest thread, without waiting for its schedule
    receive_drops: int = 0
    query_octets: int = 0  # of all messages, without the lengths before them over TCP; 0 if not reported
    response_octets: int = 0
    sending: dict[str, Any] = field(default_factory=dict)
    ramp: list[tuple[float, float]] = field(default_factory=list)  # rates, and the share answered at each
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def latencies(self) -> int:
        """How many values `latency_mean_us` is the mean of: late answers, and zonda-load's time-outs, have one too."""
        if self.latency_intended:
            return LatencyHistogram(self.latency_intended).count
        return self.answered + self.late_answers


def events(output: str) -> list[dict[str, Any]]:
    """The JSON objects that a `zonda-load` command has printed so far; ignores an incomplete last line."""
    return [json.loads(line) for line in output[: output.rfind("\n") + 1].splitlines() if line.startswith("{")]


def read_summary(output: str) -> LoadResult:
    """The `stats_sum` object of any `zonda-load` command."""
    printed = events(output)
    sums = [found for found in printed if found.get("type") == "stats_sum"]
    if not sums:
        detail = f"its output ends: {output[-400:].strip() or '(empty)'}"
        raise LabError("the load generator printed no result", detail=detail)
    total, own = sums[-1], sums[-1].get("zonda", {})
    connections = total.get("conn_info", {})
    handshake = connections.get("conn_latency", {}).get("handshake", {})
    headers = [found.get("zonda", {}) for found in printed if found.get("type") == "header"]
    intended = own.get("latency_intended", "")
    return LoadResult(
        sent=total.get("queries", 0),
        answered=own.get("responses_in_window", total.get("responses", 0)),
        late_answers=own.get("responses_after_window", 0),
        busy=own.get("busy"),
        receive_drops=own.get("receive_drops", 0),
        query_octets=own.get("query_octets", 0),
        response_octets=own.get("response_octets", 0),
        sending=headers[0].get("sending", {}) if headers else {},
        seconds=(total["until"] - total["since"]) / 1e9,
        scheduled=own.get("scheduled"),
        wrong=own.get("wrong", 0),
        wrong_examples=own.get("wrong_examples", []),
        rcodes=total.get("response_rcodes", {}),
        latency_mean_us=LatencyHistogram(intended).mean if intended else None,
        latency_intended=intended,
        latency_actual=own.get("latency_actual", ""),
        schedule_error_p99_us=own["schedule_error"]["p99"] / 1000 if "schedule_error" in own else None,
        connect_mean_us=handshake["avg"] / 1000 if handshake else None,
        handshakes=connections.get("handshakes", 0),
        invalid=own.get("invalid_because", []),
        more=own,
    )


def read_ramp(output: str, timeout: int) -> list[tuple[float, float]]:
    """The rate in each interval, and the share answered of its queries, which time out `timeout` intervals later."""
    parts = [found for found in events(output) if found.get("type") == "stats_periodic"]
    lost = [part["timeouts"] for part in parts[timeout:]] + [0] * timeout
    return [
        (part["queries"] / (part["until"] - part["since"]) * 1e9, 1 - timeouts / part["queries"])
        for part, timeouts in zip(parts, lost, strict=False)
        if part["queries"]
    ]


def merge_results(results: Sequence[LoadResult]) -> LoadResult:
    """The result of several players: sums of counts, merged histograms, means of all values, the worst lateness."""
    if len(results) == 1:
        return results[0]

    def known(name: str) -> list[Any]:
        return [value for result in results if (value := getattr(result, name)) is not None]

    counts = "sent answered late_answers wrong receive_drops handshakes query_octets response_octets"
    sums: dict[str, Any] = {name: sum(known(name)) for name in counts.split()}
    sums["scheduled"] = sum(known("scheduled")) if known("scheduled") else None
    worst: dict[str, Any] = {name: max(known(name), default=None) for name in ("busy", "schedule_error_p99_us")}
    return LoadResult(
        **sums,
        **worst,
        seconds=max(known("seconds")),
        wrong_examples=[example for result in results for example in result.wrong_examples],
        rcodes=dict(sum((Counter(result.rcodes) for result in results), Counter())),
        latency_mean_us=_mean((result.latency_mean_us, result.latencies) for result in results),
        latency_intended=_merged_histogram(known("latency_intended")),
        latency_actual=_merged_histogram(known("latency_actual")),
        connect_mean_us=_mean((result.connect_mean_us, result.handshakes) for result in results),
        invalid=[f"player {i}: {reason}" for i, result in enumerate(results, 1) for reason in result.invalid],
        sending=results[0].sending,
        ramp=_merged_ramp([result.ramp for result in results]),
        more=results[0].more,
    )


def _mean(parts: Iterable[tuple[float | None, int]]) -> float | None:
    """The mean of all values, from the mean of each part and its count; None if no part has a value."""
    known = [(mean, count) for mean, count in parts if mean is not None and count]
    return sum(mean * count for mean, count in known) / sum(count for _, count in known) if known else None


def _merged_ramp(ramps: Sequence[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The rate of all players in each interval, and the share answered of all their queries."""
    merged = []
    for interval in zip(*ramps, strict=False):
        rate = sum(rate for rate, _ in interval)
        merged.append((rate, sum(rate * answered for rate, answered in interval) / rate))
    return merged


def _merged_histogram(encoded: Sequence[str]) -> str:
    if not all(encoded):
        return ""
    total = LatencyHistogram()
    for each in encoded:
        total.merge(LatencyHistogram(each))
    return total.encoded()
