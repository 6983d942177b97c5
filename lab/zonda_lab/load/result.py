"""What a load generator measured, and the sum of several players."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from zonda_lab.load.latency_histogram import LatencyHistogram

N = TypeVar("N", int, float)


@dataclass
class LoadResult:
    """What a load generator measured; None where it does not report a value."""

    sent: int
    answered: int  # within the window
    timeouts: int
    seconds: float
    scheduled: float | None = None
    missed: int | None = None
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
    sending: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


def merge_results(results: Sequence[LoadResult]) -> LoadResult:
    """The result of several players: sums of counts, merged histograms, means of all values, the worst lateness."""
    if len(results) == 1:
        return results[0]
    return LoadResult(
        sent=sum(result.sent for result in results),
        answered=sum(result.answered for result in results),
        late_answers=sum(result.late_answers for result in results),
        busy=max((result.busy for result in results if result.busy is not None), default=None),
        receive_drops=sum(result.receive_drops for result in results),
        sending=results[0].sending,
        timeouts=sum(result.timeouts for result in results),
        seconds=max(result.seconds for result in results),
        scheduled=_sum(result.scheduled for result in results),
        missed=_sum(result.missed for result in results),
        wrong=sum(result.wrong for result in results),
        wrong_examples=[example for result in results for example in result.wrong_examples],
        rcodes=dict(sum((Counter(result.rcodes) for result in results), Counter())),
        latency_mean_us=_mean((result.latency_mean_us, result.answered) for result in results),
        latency_intended=_merged_histogram([result.latency_intended for result in results]),
        latency_actual=_merged_histogram([result.latency_actual for result in results]),
        schedule_error_p99_us=max((r.schedule_error_p99_us for r in results if r.schedule_error_p99_us), default=None),
        connect_mean_us=_mean((result.connect_mean_us, result.handshakes) for result in results),
        handshakes=sum(result.handshakes for result in results),
        invalid=[f"player {i}: {reason}" for i, result in enumerate(results, 1) for reason in result.invalid],
        more=results[0].more,
    )


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _mean(parts: Iterable[tuple[float | None, int]]) -> float | None:
    """The mean of all values, from the mean of each part and its count; None if no part has a value."""
    known = [(mean, count) for mean, count in parts if mean is not None and count]
    return sum(mean * count for mean, count in known) / sum(count for _, count in known) if known else None


def _merged_histogram(encoded: Sequence[str]) -> str:
    if not all(encoded):
        return ""
    total = LatencyHistogram()
    for each in encoded:
        total.merge(LatencyHistogram(each))
    return total.encoded()
