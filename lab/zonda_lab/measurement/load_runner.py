"""Load of one start: windows of queries, peak searches and other commands of the load generator."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import Settings, TrafficSpec
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.load.jobs import PeakSearch, QueryJob
from zonda_lab.load.players import OnEvent, Players, no_event, sources
from zonda_lab.load.result import LoadResult, merge_results
from zonda_lab.load.summary import events, read_summary
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.validity import rig_bound
from zonda_lab.results.window_record import Bound
from zonda_lab.rig.host import Network
from zonda_lab.servers.config import Certificate
from zonda_lab.zones import captures
from zonda_lab.zones.workload import workload

CAPACITY_S = 2.0  # at most the length of a window
OF_ECHO = "% of echo"
CLOSED_LOOP = 200  # queries outstanding when measuring the capacity
EchoRate = Callable[[Settings], float]


class LoadRunner:
    """Runs the load generator on all players, at rates that may be shares of a capacity."""

    def __init__(
        self,
        generator: LoadGenerator,
        network: Network,
        folder: Path,
        players: Players,
        certificate: Callable[[], Certificate],
        echo_qps: EchoRate | None,
    ) -> None:
        self._generator, self._network, self._folder, self._players = generator, network, folder, players
        self._certificate, self._echo_qps = certificate, echo_qps
        self._capacity: dict[object, LoadResult] = {}

    def job(
        self, settings: Settings, server: Server, seconds: float | None = None, rate: float | None = None
    ) -> QueryJob:
        """The generator's job for one window with these settings; a capture has its own rate and length."""
        traffic = settings.traffic
        if traffic.capture:
            path = captures.unpacked(captures.find(traffic.capture), self._folder)
            traffic = dataclasses.replace(traffic, capture=str(path))
            rate, seconds = 1.0, captures.duration_s(path) / traffic.speed
        return QueryJob(
            traffic=traffic,
            rate=self.rate(settings, server) if rate is None else rate,
            endpoint=server.config.endpoint,
            workload=workload(settings.zones, settings.queries),
            seconds=settings.timing.seconds if seconds is None else seconds,
            verify=server.checked,
            authority=self.authority(settings),
        )

    def run(self, job: QueryJob) -> LoadResult:
        """Runs the load generator on all players, each with an equal part of the rate."""
        parts = self._players.query(self._generator, job, job.seconds + job.warm_up_s)
        return merge_results([self._generator.parse(output, part) for output, part in parts])

    def find_peak(
        self, job: QueryJob, search: PeakSearch, patience_s: float
    ) -> tuple[LoadResult, list[dict[str, Any]]]:
        """Runs a peak search on the client; returns its result and its trials."""
        job = dataclasses.replace(job, source_prefix=sources(self._network.client, job.traffic.sources))
        self._network.client.place(*job.files)
        output = self._players.run([(self._network.client, self._generator.find_peak(job, search))], patience_s)[0]
        trials = [event["zonda"] for event in events(output) if event.get("msg_type") == "trial"]
        return read_summary(output), trials

    def command(self, argv: Sequence[str | Path], seconds: float, on_event: OnEvent = no_event) -> str:
        """Runs one generator command and returns its output; calls `on_event` with each event printed."""
        files = [word for word in argv if isinstance(word, Path) and word != self._generator.program]
        self._network.client.place(*files)
        return self._players.run([(self._network.client, argv)], seconds, on_event)[0]

    def rate(self, settings: Settings, server: Server) -> float:
        """Queries per second; a percentage is relative to the capacity of this start, or of the echo server."""
        rate = settings.traffic.rate
        if not isinstance(rate, str):
            return rate
        if not rate.endswith(OF_ECHO):
            return self.capacity(settings, server) * float(rate.rstrip("%")) / 100
        if self._echo_qps is None:
            raise LabError(f"traffic.rate = {rate!r} without a measured echo server")
        return self._echo_qps(settings) * float(rate.removesuffix(OF_ECHO)) / 100

    def capacity(self, settings: Settings, server: Server) -> float:
        """Answers per second in a closed loop, measured once per start and kind of traffic."""
        result = self._measured_capacity(settings, server)
        return result.answered / result.seconds

    def capacity_bounds(self, settings: Settings, server: Server) -> dict[str, Bound]:
        """Whether `capacity` is only a lower bound, as the generator and not the server was the limit."""
        return {"capacity_qps": "at least"} if rig_bound(self._measured_capacity(settings, server), closed=True) else {}

    def _measured_capacity(self, settings: Settings, server: Server) -> LoadResult:
        traffic = _closed(settings.traffic)
        if traffic not in self._capacity:
            self._capacity[traffic] = self.closed_loop(settings, server)
        return self._capacity[traffic]

    def closed_loop(self, settings: Settings, server: Server) -> LoadResult:
        """A short closed loop with this kind of traffic, whose answers are not checked."""
        seconds = min(CAPACITY_S, settings.timing.seconds)
        job = self.job(dataclasses.replace(settings, traffic=_closed(settings.traffic)), server, seconds, rate=0.0)
        return self.run(dataclasses.replace(job, verify=False))

    def authority(self, settings: Settings) -> Certificate | None:
        """The CA certificate of the server, if queries use TLS."""
        return self._certificate() if settings.traffic.transport == "tls" else None


def _closed(traffic: TrafficSpec) -> TrafficSpec:
    """The same traffic as a closed loop."""
    return dataclasses.replace(traffic, loop="closed", outstanding=CLOSED_LOOP, rate=0.0, capture="")
