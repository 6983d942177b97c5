"""What the rig itself can do at most, per kind of traffic: an echo server instead of the server, in the same hour.

Rates that are shares of the echo server's capacity come from the first measurement of a run in the rig of the baseline,
so that they are the same for all servers, for all levels that are compared, and after `--resume`: at another rate a
query has another cost. Windows are compared with the latest measurement in their own rig, which is repeated after an
hour.
"""

import dataclasses
import datetime
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import Settings
from zonda_lab.experiments.metrics import GOALS, METRICS, WITHOUT_DNS
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.measurement import validity
from zonda_lab.measurement.harness import Harness, MakeNetwork
from zonda_lab.measurement.load_runner import OF_ECHO
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.validity import ValidityInput
from zonda_lab.procedures import procedure_of
from zonda_lab.procedures.peak import searched
from zonda_lab.procedures.queries import measure_window
from zonda_lab.results.folder import Results
from zonda_lab.results.settings_bounds import peak_bounds
from zonda_lab.results.window_record import Bound
from zonda_lab.servers import InstalledServer

FILE = "limits.json"
ECHO = "echo"
VALID_S = 3600.0
WINDOW_S = 2.0  # at most, for a window of echo
LATENCIES = tuple(name for name, metric in METRICS.items() if metric.is_latency)
COMPARED = ("answered_qps", "answered_share", "cpu_us_per_query", *LATENCIES)


@dataclass
class Limits:
    """Both limits for one kind of traffic, and the metrics of echo at the rates of an experiment."""

    echo_qps: float
    generator_qps: float
    measured: str
    traffic: dict[str, Any]
    measured_at: float = field(default_factory=time.monotonic)
    windows: dict[str, dict[str, float]] = field(default_factory=dict)  # by traffic with its rate
    bounds: dict[str, dict[str, Bound]] = field(default_factory=dict)  # which of these metrics are only bounds
    latency_reasons: dict[str, list[str]] = field(default_factory=dict)  # why the latencies of a window are invalid
    disturbed: list[str] = field(default_factory=list)  # what makes its windows less certain: the reader must know

    def add(self, checked: ValidityInput) -> None:
        """Adds a window of echo."""
        window, key, disturbed = checked.window, traffic_key(checked.settings), validity.disturbances(checked)
        self.disturbed += disturbed
        load = validity.load_reasons(checked)
        self.latency_reasons[key] = [*load, *disturbed, *validity.latency_reasons(checked)]
        wanted = {name for name in window.metrics if name in GOALS} | set(COMPARED)
        self.windows[key] = {name: value for name, value in window.metrics.items() if name in wanted}
        bounds = {**peak_bounds(window.detail), **window.bounds}
        self.bounds[key] = {name: bound for name, bound in bounds.items() if name in wanted}


class RigLimits:
    """Measures limits when they are needed first, and again after an hour."""

    def __init__(
        self, results: Results, installed: Mapping[str, InstalledServer], generator: LoadGenerator, network: MakeNetwork
    ) -> None:
        self._results, self._installed, self._generator, self._network = results, installed, generator, network
        self._latest: dict[str, Limits] = {}
        self._baselines: dict[str, str] = {}  # kind of traffic -> that of the baseline, for the start that is prepared
        self._first: dict[str, dict[str, Any]] = results.read(FILE) if (results.folder / FILE).exists() else {}

    def prepare(self, start: Start) -> None:
        """Measures what the windows of a start need, before its server runs."""
        if not is_compared(start):
            return
        if ECHO not in self._installed:
            if _needs_echo(start):
                raise UnsupportedError("its rates are shares of the echo server's, which is not installed")
            return
        planned = [inner for inner in start.within if not inner.copy]
        windows = [start.settings_of(inner) for inner in planned]
        baselines = [start.baseline_of(inner) for inner in planned] if _needs_echo(start) else windows
        self._baselines = {rig_key(own): rig_key(base) for own, base in zip(windows, baselines, strict=True)}
        self._measure_missing(start, [base for base in baselines if rig_key(base) not in self._first])
        self._measure_missing(start, windows)

    def _measure_missing(self, start: Start, windows: list[Settings]) -> None:
        if missing := [settings for settings in windows if not self._is_known(settings)]:
            self._measure(missing, start.experiment.definition.procedure == "peak")

    def echo_qps(self, settings: Settings) -> float:
        """The capacity of the echo server for this kind of traffic in the rig of the baseline, as measured first."""
        kind = rig_key(settings)
        try:
            return float(self._first[self._baselines.get(kind, kind)]["echo_qps"])
        except KeyError:
            raise LabError("the echo server was not measured for this traffic") from None

    def describe(self, settings: Settings) -> tuple[dict[str, float], dict[str, Any]]:
        """The metrics of echo for a window with these settings, and both limits; empty if unknown."""
        limits = self._latest.get(rig_key(settings))
        if limits is None:
            return {}, {}
        known = {"echo_qps": limits.echo_qps, "generator_qps": limits.generator_qps, "measured": limits.measured}
        echo = {"capacity_qps": limits.echo_qps, **limits.windows.get(traffic_key(settings), {})}
        of_window = {
            "bounds": limits.bounds.get(traffic_key(settings), {}),
            "latency_reasons": limits.latency_reasons.get(traffic_key(settings), []),
        }
        return echo, {**known, **of_window, "traffic": limits.traffic, "disturbed": limits.disturbed}

    def _recent(self, settings: Settings) -> Limits | None:
        """The limits of this kind of traffic, unless they are too old."""
        limits = self._latest.get(rig_key(settings))
        return limits if limits and time.monotonic() - limits.measured_at < VALID_S else None

    def _is_known(self, settings: Settings) -> bool:
        limits = self._recent(settings)
        return limits is not None and traffic_key(settings) in limits.windows

    def _measure(self, windows: list[Settings], is_search: bool) -> None:
        """Starts an echo server and measures all these windows."""
        first = as_echo(windows[0])
        with Harness(first, self._installed, self._generator, self._network, self.echo_qps) as harness:
            server = harness.start_ready_server()
            for settings in map(as_echo, windows):
                limits = self._limits(harness, server, settings)
                window = (searched if is_search else measure_window)(harness, server, settings)
                seen = harness.observer.observed(window.span)
                limits.add(ValidityInput(window, seen, settings, harness.network, receives_load=True))

    def _limits(self, harness: Harness, server: Server, settings: Settings) -> Limits:
        """The limits of this kind of traffic, measured now unless they are recent."""
        if known := self._recent(settings):
            return known
        kind = rig_key(settings)
        result = harness.load.closed_loop(settings, server)
        answered = result.answered / result.seconds
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        described = {name: getattr(settings.traffic, name) for name in ("transport", "connections", "sources")}
        limits = Limits(answered, answered / (result.busy or 1.0), now, described)
        self._latest[kind] = limits
        if kind not in self._first:
            kept = ("echo_qps", "generator_qps", "measured", "traffic")
            self._first[kind] = {name: getattr(limits, name) for name in kept}
            self._results.write(FILE, self._first)
        return limits


def is_compared(start: Start) -> bool:
    """Whether the windows of a start are compared with an echo server's, or their rates are shares of its capacity."""
    uses_echo = procedure_of(start).uses_echo
    return _needs_echo(start) or (uses_echo and start.settings.server.name not in WITHOUT_DNS)


def as_echo(settings: Settings) -> Settings:
    """The same rig and traffic with an echo server, in short windows."""
    seconds, tolerance = min(WINDOW_S, settings.timing.seconds), max(0.05, settings.timing.tolerance)
    timing = dataclasses.replace(settings.timing, seconds=seconds, tolerance=tolerance)
    server = dataclasses.replace(settings.server, name=ECHO, options={})
    traffic = settings.traffic
    if isinstance(traffic.rate, str) and not traffic.rate.endswith(OF_ECHO):
        traffic = dataclasses.replace(traffic, rate=f"{traffic.rate} of echo")  # there the capacity is that of echo
    return dataclasses.replace(settings, server=server, timing=timing, traffic=traffic)


def rig_key(settings: Settings) -> str:
    """Identifies the rig and the kind of traffic, whatever its rate and loop."""
    steady = dataclasses.replace(settings.traffic, rate=1.0, ramp=1.0)
    traffic = dataclasses.replace(steady, loop="closed", outstanding=1, arrivals="constant")
    text = repr((settings.rig, traffic, settings.server.workers))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def traffic_key(settings: Settings) -> str:
    """Identifies the traffic of a window of that kind."""
    traffic, rate = settings.traffic, str(settings.traffic.rate).removesuffix(" of echo")
    return f"{traffic.loop} {rate} {traffic.ramp} {traffic.outstanding} {traffic.arrivals}"


def _needs_echo(start: Start) -> bool:
    return any(str(start.settings_of(inner).traffic.rate).endswith(OF_ECHO) for inner in start.within)
