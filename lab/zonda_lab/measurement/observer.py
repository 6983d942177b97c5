"""Telemetry of all machines of a start: spans of time, and the samples in them."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zonda_lab.rig.host import Host, TelemetryTarget
from zonda_lab.rig.process import Program
from zonda_lab.telemetry.collector import TelemetryCollector
from zonda_lab.telemetry.series import Telemetry, with_clients

ROUNDING_S = 1e-6  # of times as floating point numbers


@dataclass
class Span:
    """A time interval and the CPU time used in it."""

    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    server_cpu_s: float = 0.0
    own_cpu_s: float = 0.0  # of the experiment, on the server's machine
    elsewhere_cpu_s: dict[str, float] = field(default_factory=dict)  # of the experiment, on each other machine
    # Times of the telemetry samples before and after it, per machine.
    edges: list[tuple[float, float]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return self.ended - self.began


class Observer:
    """The telemetry collectors of a start; the first is that of the server's machine."""

    def __init__(self, targets: Sequence[TelemetryTarget], folder: Path) -> None:
        self._collectors = [TelemetryCollector(target, folder / f"telemetry{i}") for i, target in enumerate(targets)]

    def start(self) -> list[Program]:
        """Starts all collectors; the caller stops them."""
        return [collector.start() for collector in self._collectors]

    @property
    def file(self) -> Path:
        """The telemetry file of the server's machine."""
        return self._collectors[0].file

    def clock(self, host: Host) -> Callable[[int], float]:
        """Converts wall-clock times of a machine, in nanoseconds, to seconds of the lab's monotonic clock."""
        return next(collector for collector in self._collectors if collector.covers(host)).at_realtime

    @contextlib.contextmanager
    def span(self, process: Program | None, started: Callable[[], Program | None]) -> Iterator[Span]:
        """Measures the time and CPU time of the block, with telemetry right before and after it.

        Without `process`, the block starts the server, which `started` returns afterwards.
        """
        before_edges = self._mark()
        own_before = [collector.own_cpu_s() for collector in self._collectors]
        before = process.cpu_s() if process else 0.0
        span = Span()
        yield span
        span.ended = time.monotonic()
        if (observed := process or started()) is not None:
            span.server_cpu_s = observed.cpu_s() - before
        span.edges = list(zip(before_edges, self._mark(), strict=True))
        own = [collector.own_cpu_s() - before for collector, before in zip(self._collectors, own_before, strict=True)]
        span.own_cpu_s = span.server_cpu_s + own[0]
        others = zip(self._collectors[1:], own[1:], strict=True)
        span.elsewhere_cpu_s = {collector.host.name: cpu_s for collector, cpu_s in others}

    def _mark(self) -> list[float]:
        """Has every machine sampled now; returns the times. The server's is last, to cover what players have sent."""
        for collector in reversed(self._collectors):
            collector.mark()
        return [collector.wait_for_mark() for collector in self._collectors]

    def observed(self, span: Span) -> Telemetry:
        """The telemetry of the server's machine during a span, with the samples at its edges."""
        return _within(self.latest(), span, 0)

    def latest(self) -> Telemetry:
        """The telemetry of the server's machine so far, with the players' network counters, on the lab's clock."""
        first, *others = [collector.telemetry() for collector in self._collectors]
        return with_clients(first, others)

    def elsewhere(self, span: Span) -> dict[str, Telemetry]:
        """The telemetry of all other machines during a span, by host name."""
        others = enumerate(self._collectors[1:], 1)
        return {other.host.name: _within(other.telemetry(), span, i) for i, other in others}

    def label(self, label: str, program: Program, host: Host) -> None:
        """Labels a program in the telemetry of its machine."""
        for collector in self._collectors:
            if collector.covers(host):
                collector.label(label, program)


def _within(telemetry: Telemetry, span: Span, machine: int) -> Telemetry:
    first, last = span.edges[machine] if span.edges else (span.began, span.ended)
    return telemetry.between(min(first, span.began) - ROUNDING_S, max(last, span.ended) + ROUNDING_S)
