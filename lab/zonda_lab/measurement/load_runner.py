"""Load of one start: the load generator on the hosts that generate load ("players")."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import Settings, TrafficSpec
from zonda_lab.load.generator import GRACE_S, LoadGenerator, QueryJob
from zonda_lab.load.result import LoadResult, events, merge_results, read_summary
from zonda_lab.load.zonda_load import require_zonda_load
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.validity import rig_bound
from zonda_lab.results.window_record import Bound
from zonda_lab.rig.host import Host, Network
from zonda_lab.rig.process import Program
from zonda_lab.servers.config import Certificate
from zonda_lab.zones import captures
from zonda_lab.zones.workload import workload

CAPACITY_S = 2.0  # at most the length of a window
OF_ECHO = "% of echo"
CLOSED_LOOP = 200  # queries outstanding when measuring the capacity
VALID, INVALID = 0, 3  # exit statuses of a load generator that printed a result
# Interval of reading the output of the load generator; each read can delay the generator by a millisecond.
POLL_S = 0.1
EchoRate = Callable[[Settings], float]
OnEvent = Callable[[dict[str, Any]], None]
HostCommand = tuple[Host, Sequence[str | Path]]


@dataclass
class LoadRunner:
    """Runs the load generator on all players, at rates that may be shares of a capacity."""

    generator: LoadGenerator
    network: Network
    folder: Path  # of the output
    cpus: Sequence[int]
    started: Callable[[str, Program, Host], None]  # called for each program
    certificate: Callable[[], Certificate]  # of the server
    echo_qps: EchoRate | None
    _capacity: dict[TrafficSpec, LoadResult] = field(default_factory=dict)

    def job(
        self, settings: Settings, server: Server, seconds: float | None = None, rate: float | None = None
    ) -> QueryJob:
        """The generator's job for one window with these settings; a capture has its own rate and length."""
        traffic = settings.traffic
        if traffic.capture:
            path = captures.unpacked(captures.find(traffic.capture), self.folder)
            traffic = replace(traffic, capture=str(path))
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
        """Runs the load generator on all players, each with an equal part of the load."""
        players = self.network.players
        shared = [part_of(job, i, len(players)) for i in range(len(players))]
        parts = [
            replace(part, source_prefix=sources(player, job.traffic.sources))
            for player, part in zip(players, shared, strict=True)
        ]
        for player in players:
            player.place(*job.files)
        commands = [(player, self.generator.query(part)) for player, part in zip(players, parts, strict=True)]
        outputs = self._run(commands, job.seconds)
        return merge_results([self.generator.parse(text, part) for text, part in zip(outputs, parts, strict=True)])

    def find_peak(
        self, job: QueryJob, goals: Sequence[str], resolution: float, patience_s: float
    ) -> tuple[LoadResult, list[dict[str, Any]]]:
        """Runs a peak search on the client; returns its result and its trials.

        Raises UnsupportedError if there are several players: none would find what all of them can send.
        """
        if len(self.network.players) > 1:
            several = f"a peak search runs on one player, the inventory has {len(self.network.players)}"
            raise UnsupportedError(several, "leave one player in the inventory, or measure at fixed rates")
        client = self.network.client
        client.place(*job.files)
        job = replace(job, source_prefix=sources(client, job.traffic.sources))
        command = require_zonda_load(self.generator).find_peak(job, goals, resolution)
        output = self._run([(client, command)], patience_s)[0]
        trials = [event["zonda"] for event in events(output) if event.get("msg_type") == "trial"]
        return read_summary(output), trials

    def command(self, argv: Sequence[str | Path], seconds: float, on_event: OnEvent | None = None) -> LoadResult:
        """Runs one command of zonda-load and returns its result; calls `on_event` with each event printed."""
        files = [word for word in argv if isinstance(word, Path) and word != self.generator.program]
        self.network.client.place(*files)
        return read_summary(self._run([(self.network.client, argv)], seconds, on_event)[0])

    def rate(self, settings: Settings, server: Server) -> float:
        """Queries per second; a percentage is relative to the capacity of this start, or of the echo server."""
        rate = settings.traffic.rate
        if not isinstance(rate, str):
            return rate
        if not rate.endswith(OF_ECHO):
            return self.capacity(settings, server) * float(rate.rstrip("%")) / 100
        if self.echo_qps is None:
            raise LabError(f"traffic.rate = {rate!r} without a measured echo server")
        return self.echo_qps(settings) * float(rate.removesuffix(OF_ECHO)) / 100

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

    def closed_loop(self, settings: Settings, server: Server, seconds: float = 0.0) -> LoadResult:
        """A closed loop with this kind of traffic, by default a short one, whose answers are not checked."""
        seconds = seconds or min(CAPACITY_S, settings.timing.seconds)
        job = self.job(replace(settings, traffic=_closed(settings.traffic)), server, seconds, rate=0.0)
        return self.run(replace(job, verify=False))

    def authority(self, settings: Settings) -> Certificate | None:
        """The CA certificate of the server, if queries are encrypted."""
        return self.certificate() if settings.traffic.is_encrypted else None

    def _run(self, commands: Sequence[HostCommand], seconds: float, on_event: OnEvent | None = None) -> list[str]:
        """Runs all commands concurrently and returns their outputs; calls `on_event` with events of the first."""
        seen = read = 0
        with contextlib.ExitStack() as running:
            programs = [running.enter_context(self._start(*command, i)) for i, command in enumerate(commands)]
            for (host, _), program in zip(commands, programs, strict=True):
                self.started("load", program, host)
            deadline = time.monotonic() + seconds + GRACE_S
            while living := [program for program in programs if program.alive]:
                living[0].wait(POLL_S)
                _check(commands, programs)
                if time.monotonic() > deadline:
                    late = f"the load generator is still running {GRACE_S:.0f} s after its scheduled end"
                    raise LabError(late, detail=programs[0].tail())
                if on_event is None or programs[0].log.stat().st_size == read:
                    continue
                text = programs[0].log.read_text()
                found = [event for event in events(text) if "msg_type" in event]
                for event in found[seen:]:
                    on_event(event)
                seen, read = len(found), len(text)
            _check(commands, programs)
        return [program.log.read_text() for program in programs]

    def _start(self, host: Host, argv: Sequence[str | Path], number: int) -> Program:
        log = self.folder / f"load{number}.log"
        log.unlink(missing_ok=True)
        return host.start("load", argv, log, self.cpus)


def part_of(job: QueryJob, index: int, count: int) -> QueryJob:
    """The part of the load of one of `count` players: of the rate, the outstanding queries and the connections.

    Raises UnsupportedError if there is nothing for some of them.
    """
    traffic, is_closed = job.traffic, job.traffic.loop == "closed"
    if count > 1 and traffic.capture:
        raise UnsupportedError(f"each of the {count} players would replay the whole capture", "leave one player")
    needed = {"connections": traffic.connections, **({"outstanding": traffic.outstanding} if is_closed else {})}
    for name, number in needed.items():
        if number < count:
            what = f"{count} players cannot share traffic.{name} = {number}"
            raise UnsupportedError(what, "leave fewer players in the inventory")
    connections, outstanding = (_share(number, index, count) for number in (traffic.connections, traffic.outstanding))
    part = replace(traffic, connections=connections, outstanding=max(1, outstanding))
    return replace(job, rate=job.rate / count, traffic=part)


def _share(number: int, index: int, count: int) -> int:
    return number // count + (index < number % count)


def sources(host: Host, count: int) -> str:
    """The prefix for `count` source addresses on that host; empty for one address."""
    return host.sources if count > 1 else ""


def _check(commands: Sequence[HostCommand], programs: Sequence[Program]) -> None:
    """Raises if a load generator ended without a result; the others are then useless."""
    for (host, _), program in zip(commands, programs, strict=True):
        if program.status not in (None, VALID, INVALID):
            failed = f"{host.name}: the load generator failed with status {program.status}"
            raise LabError(failed, detail=program.tail())


def _closed(traffic: TrafficSpec) -> TrafficSpec:
    """The same traffic as a closed loop."""
    return replace(traffic, loop="closed", outstanding=CLOSED_LOOP, rate=0.0, ramp=1.0, capture="")
