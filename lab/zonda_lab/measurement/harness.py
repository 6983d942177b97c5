"""The test harness of one start: network, zones, server, primary, load generator and telemetry."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import Settings, TrafficSpec
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.load.jobs import PeakSearch, QueryJob
from zonda_lab.load.players import OnEvent, Players, no_event, sources
from zonda_lab.load.result import LoadResult, merge_results
from zonda_lab.load.summary import events, read_summary
from zonda_lab.load.zone_probe import Arrivals, ZoneProbe
from zonda_lab.measurement.environment import Environment
from zonda_lab.rig import readiness, server_sockets
from zonda_lab.rig.host import Host, Network, drop_page_cache
from zonda_lab.rig.process import Program
from zonda_lab.servers import Feature, InstalledServer
from zonda_lab.servers.config import Certificate, Endpoint, Primary, ServerConfig, Zone
from zonda_lab.servers.credentials import TSIG, certificate
from zonda_lab.telemetry.collector import TelemetryCollector
from zonda_lab.telemetry.series import Telemetry, with_clients
from zonda_lab.zones import captures, zonegen
from zonda_lab.zones.workload import Workload, workload
from zonda_lab.zones.zonegen import ZoneSet

CAPACITY_S = 2.0  # at most the length of a window
OF_ECHO = "% of echo"
ROUNDING_S = 1e-6  # of times as floating point numbers
CLOSED_LOOP = 200  # queries outstanding when measuring the capacity
SCRATCH = "zonda-lab-"  # followed by the process id of the lab, to find the folders of killed labs


@dataclass
class Server:
    """A running server."""

    installed: InstalledServer
    config: ServerConfig
    process: Program
    first_answer_s: float = 0.0
    sockets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def checked(self) -> bool:
        """Whether its answers can be checked; those of an echo cannot."""
        return Feature.ZONES in self.installed.adapter.features(self.installed.version)


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


MakeNetwork = Callable[[Settings], Network]


class Harness:
    """Rig, zones, processes and telemetry of one start; leaving it ends and removes all of them."""

    def __init__(
        self,
        settings: Settings,
        installed: Mapping[str, InstalledServer],
        generator: LoadGenerator,
        make_network: MakeNetwork | None = None,
        echo_qps: Callable[[Settings], float] | None = None,
    ) -> None:
        self.settings, self.generator, self._installed = settings, generator, installed
        self._echo_qps = echo_qps
        self._make_network = make_network or Environment().network
        self._open = contextlib.ExitStack()
        self._capacity: dict[object, float] = {}
        self._probes = 0
        self._started: Program | None = None  # the server under test

    def __enter__(self) -> Harness:
        try:
            self._enter()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def _enter(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-"))
        self._open.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.zones: ZoneSet = zonegen.generate(self.settings.zones)
        self.network = self._open.enter_context(self._make_network(self.settings))
        self._collectors = [
            TelemetryCollector(target, self.folder / f"telemetry{i}")
            for i, target in enumerate(self.network.telemetry_targets)
        ]
        for collector in self._collectors:
            self._open.enter_context(collector.start())
        self._players = Players(self.network, self.folder, self.settings.rig.load_cpus, self._label)

    @property
    def telemetry_file(self) -> Path:
        """The telemetry file of the server's machine."""
        return self._collectors[0].file

    @property
    def endpoint(self) -> Endpoint:
        """Where the server under test listens."""
        return Endpoint(self.network.server_address)

    def installed(self, label: str) -> InstalledServer:
        """The installed server with that label."""
        if label not in self._installed:
            raise UnsupportedError(
                f"server `{label}` is not installed",
                f"`zonda-lab servers` shows why; installed: {', '.join(self._installed)}",
            )
        return self._installed[label]

    def require(self, server: InstalledServer, *features: Feature | None) -> None:
        """Raises UnsupportedError, which skips the treatment, if the server lacks a feature; ignores None."""
        for feature in filter(None, features):
            if feature not in server.adapter.features(server.version):
                raise UnsupportedError(f"{server.label} {server.version} does not support {feature.value}")

    def start_process(self, label: str, argv: Sequence[str | Path]) -> Program:
        """Starts a program on the client host and the generator's CPUs; it runs until the harness is closed."""
        return self._start_on(self.network.client, label, argv)

    def _start_on(self, host: Host, label: str, argv: Sequence[str | Path]) -> Program:
        log = self.folder / f"{label}.log"
        process = self._open.enter_context(host.start(label, argv, log, self.settings.rig.load_cpus))
        self._label(label, process, host)
        return process

    def start_server(self, zones: Sequence[Zone] | None = None, updates: bool = False) -> Server:
        """Starts the server under test, without waiting for it."""
        spec, rig, installed = self.settings.server, self.settings.rig, self.installed(self.settings.server.name)
        tls = self.settings.traffic.transport == "tls"
        if tls:
            self.require(installed, Feature.TLS)
        config = ServerConfig(
            directory=self.folder / "server",
            endpoint=self.endpoint,
            zones=tuple(self.zones.zones if zones is None else zones),
            workers=spec.workers,
            cpus=tuple(rig.server_cpus),
            tcp_clients=spec.tcp_clients,
            tcp_idle_s=spec.tcp_idle_s,
            certificate=self.certificate if tls else None,
            tsig=TSIG if self.settings.primary.tsig else None,
            parallel_transfers=self.settings.primary.parallel_transfers,
            updates=updates,
            tuned=spec.settings == "tuned",
            options=tuple(spec.options.get(installed.adapter.name, ())),
        )
        self._prepare(installed, config, self.network.server)
        if self.settings.timing.cold_cache:
            drop_page_cache(
                self.network.server, self.folder / "cold.txt", [zone.file for zone in config.zones if zone.file]
            )
        command, log = installed.adapter.command(installed.program, config), self.folder / "server.log"
        started = self.network.server.start("server", command, log, rig.server_cpus, rig.descriptors)
        process = self._open.enter_context(started)
        self._label("server", process, self.network.server)
        self._started = process
        return Server(installed, config, process)

    def _prepare(self, installed: InstalledServer, config: ServerConfig, host: Host) -> None:
        """Writes the configuration and copies it and the zones to the host."""
        installed.adapter.prepare(config)
        folders = {zone.file.parent for zone in config.zones if zone.file}
        host.place(config.directory, *folders, *_credentials(config))

    def wait_ready(self, server: Server, zone: str | None = None) -> float:
        """Seconds from the start of `server` to its first answer for `zone` (default: its last zone)."""
        end = self.network.client if server.config.endpoint == self.endpoint else self.network.server
        name = zone or server.config.zones[-1].name
        server.first_answer_s = readiness.wait_ready(
            server.process, end, server.config.endpoint, name, self.settings.timing.ready_s
        )
        self.settle_sockets(server)
        return server.first_answer_s

    def settle_sockets(self, server: Server, change: bool = True) -> None:
        """Gives the server the receive buffer and backlog that all servers have, if tuned, and reads both."""
        spec = self.settings.server
        host = self.network.server if server.config.endpoint == self.endpoint else self.network.primary
        script = self.folder / "server_sockets.py"
        shutil.copyfile(server_sockets.__file__, script)
        host.place(script)
        wanted = ["--receive-buffer", str(spec.receive_buffer), "--backlog", str(spec.backlog)]
        tuning = wanted if change and server.config.tuned else []
        printed = host.run(host.python, script, str(server.process.pid), *tuning)
        own = {(found["kind"], found["port"]): found["own_receive_buffer"] for found in server.sockets}
        server.sockets = [json.loads(line) for line in printed.splitlines()]
        for found in server.sockets:  # as it was before the lab changed it
            found["own_receive_buffer"] = own.get((found["kind"], found["port"]), found["own_receive_buffer"])

    def settle_early(self, server: Server) -> None:
        """Gives a server its sockets' settings as soon as it has bound them, before it is ready."""
        deadline = time.monotonic() + self.settings.timing.ready_s
        while server.process.alive and time.monotonic() < deadline:
            self.settle_sockets(server)
            if any(found["kind"] == "udp" for found in server.sockets):
                return
            time.sleep(0.02)

    def start_primary(self, zones: Sequence[Zone], notify: tuple[Endpoint, ...] = ()) -> Server:
        """Starts the primary and waits until it answers; `secondary_zones` spreads zones over its addresses."""
        spec, installed = self.settings.primary, self.installed(self.settings.primary.name)
        over_tls = Feature.XOT_OUT if spec.transport == "tls" else None
        self.require(installed, Feature.TRANSFER_OUT, over_tls, Feature.TSIG if spec.tsig else None)
        addresses = [self.network.primary_address(number) for number in range(spec.addresses)]
        config = ServerConfig(
            directory=self.folder / "primary",
            endpoint=Endpoint(addresses[0]),
            more_addresses=tuple(addresses[1:]),
            zones=tuple(zones),
            workers=1,
            tcp_clients=4000,
            certificate=self.certificate if spec.transport == "tls" else None,
            tsig=TSIG if spec.tsig else None,
            notify=notify,
            tuned=self.settings.server.settings == "tuned",
        )
        self._prepare(installed, config, self.network.primary)
        process = self._start_on(self.network.primary, "primary", installed.adapter.command(installed.program, config))
        server = Server(installed, config, process)
        self.wait_ready(server)
        return server

    def secondary_zones(self) -> list[Zone]:
        """The zones as a secondary is configured with them: a primary instead of a file."""
        spec = self.settings.primary
        tls = self.certificate if spec.transport == "tls" else None
        primaries = [Primary(Endpoint(self.network.primary_address(number)), tls) for number in range(spec.addresses)]
        return [Zone(zone.name, primary=primaries[i % len(primaries)]) for i, zone in enumerate(self.zones.zones)]

    @property
    def certificate(self) -> Certificate:
        """A certificate for the servers of this start."""
        if not hasattr(self, "_certificate"):
            self._certificate = certificate(self.folder)
        return self._certificate

    def changeable_zones(self) -> list[Zone]:
        """Zones with writable copies of the zone files."""
        if self.settings.zones.signed != "no":
            raise UnsupportedError("cannot change a signed zone: its SOA would need a new signature")
        copies = []
        for i, zone in enumerate(self.zones.zones):
            path = self.folder / "zones" / zonegen.file_name(i)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(zone.file or "", path)
            copies.append(Zone(zone.name, path))
        return copies

    def workload(self) -> Workload:
        """The query file for the zones."""
        return workload(self.settings.zones, self.settings.queries)

    def job(
        self, settings: Settings, server: Server, seconds: float | None = None, rate: float | None = None
    ) -> QueryJob:
        """The generator's job for one window with these settings; a capture has its own rate and length."""
        traffic = settings.traffic
        if traffic.capture:
            path = captures.unpacked(captures.find(traffic.capture), self.folder)
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

    def load(self, job: QueryJob) -> LoadResult:
        """Runs the load generator on all players, each with an equal part of the rate."""
        parts = self._players.query(self.generator, job, job.seconds + job.warm_up_s)
        return merge_results([self.generator.parse(output, part) for output, part in parts])

    def find_peak(
        self, job: QueryJob, search: PeakSearch, patience_s: float
    ) -> tuple[LoadResult, list[dict[str, Any]]]:
        """Runs a peak search on the client; returns its result and its trials."""
        job = dataclasses.replace(job, source_prefix=sources(self.network.client, job.traffic.sources))
        self.network.client.place(*job.files)
        output = self._players.run([(self.network.client, self.generator.find_peak(job, search))], patience_s)[0]
        trials = [event["zonda"] for event in events(output) if event.get("msg_type") == "trial"]
        return read_summary(output), trials

    def start_probe(self, names: Sequence[str], seconds: float, serial: int = 0) -> ZoneProbe:
        """Asks for each zone until it is answered, with `serial` if given, and for at most `seconds`.

        Returns when the first query has been sent, so that the server can be started after it.
        """
        self._probes += 1
        label = f"probe{self._probes}"

        def start(argv: Sequence[str | Path]) -> Program:
            return self.start_process(label, argv)

        place = (self.network.client, start, self.generator, self.folder / label, self.endpoint)
        probe = ZoneProbe(*place, names, seconds, serial)
        probe.wait_started()
        return probe

    def arrivals(self, probe: ZoneProbe, server: Server) -> Arrivals:
        """Waits for the end of a probe, as long as the server lives."""
        clock = next(collector for collector in self._collectors if collector.covers(self.network.client))
        return probe.arrivals(clock.at_realtime, server.process.require_alive)

    def run_load(self, argv: Sequence[str | Path], seconds: float, on_event: OnEvent = no_event) -> str:
        """Runs one generator command and returns its output; calls `on_event` with each event printed."""
        self.network.client.place(*(word for word in argv if isinstance(word, Path) and word != self.generator.program))
        return self._players.run([(self.network.client, argv)], seconds, on_event)[0]

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
        traffic = _closed(settings.traffic)
        if traffic not in self._capacity:
            result = self.closed_loop(settings, server)
            self._capacity[traffic] = result.answered / result.seconds
        return self._capacity[traffic]

    def closed_loop(self, settings: Settings, server: Server) -> LoadResult:
        """A short closed loop with this kind of traffic, whose answers are not checked."""
        seconds, authority = min(CAPACITY_S, settings.timing.seconds), self.authority(settings)
        job = QueryJob(_closed(settings.traffic), 0.0, server.config.endpoint, self.workload(), seconds)
        return self.load(dataclasses.replace(job, verify=False, authority=authority))

    def authority(self, settings: Settings) -> Certificate | None:
        """The CA certificate of the server, if queries use TLS."""
        return self.certificate if settings.traffic.transport == "tls" else None

    @contextlib.contextmanager
    def span(self, server: Server | None = None) -> Iterator[Span]:
        """Measures the time and CPU time of the block, with telemetry right before and after it.

        Without `server`, the block starts the server under test.
        """
        before_edges = self._mark()
        own_before = [collector.own_cpu_s() for collector in self._collectors]
        before = server.process.cpu_s() if server else 0.0
        span = Span()
        yield span
        span.ended = time.monotonic()
        if (process := server.process if server else self._started) is not None:
            span.server_cpu_s = process.cpu_s() - before
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

    def reload(self, server: Server) -> None:
        """Makes the server reload changed zone files; some servers do so only if the configuration file is newer."""
        self._prepare(server.installed, server.config, self.network.server)
        if command := server.installed.adapter.reload_command(server.config):
            self.network.server.run(*command)
        else:
            server.process.signal(signal.SIGHUP)

    def _label(self, label: str, program: Program, host: Host) -> None:
        """Labels a program in the telemetry of its machine."""
        for collector in self._collectors:
            if collector.covers(host):
                collector.label(label, program)


def _within(telemetry: Telemetry, span: Span, machine: int) -> Telemetry:
    first, last = span.edges[machine] if span.edges else (span.began, span.ended)
    return telemetry.between(min(first, span.began) - ROUNDING_S, max(last, span.ended) + ROUNDING_S)


def _credentials(config: ServerConfig) -> list[Path]:
    """The certificate and key files that a server reads."""
    return [*_files(config.certificate), *_files(config.authority)]


def _files(certificate: Certificate | None) -> list[Path]:
    return [certificate.certificate, certificate.key] if certificate else []


def remove_stale_folders(below: Path | None = None) -> None:
    """Removes temporary folders of labs whose process no longer exists."""
    for folder in (below or Path(tempfile.gettempdir())).glob(f"{SCRATCH}*-*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


def set_serial(zone: Path, number: int) -> None:
    """Changes the SOA serial of a generated zone in place; it has ten digits and is in the first line."""
    with zone.open("r+") as file:
        soa = file.readline().split()
        at = len(" ".join(soa[:6])) + 1
        if soa[3] != "SOA" or not (10**9 <= number < 2**32):
            raise LabError(f"{zone}: no serial to change")
        file.seek(at)
        file.write(str(number))


def _closed(traffic: TrafficSpec) -> TrafficSpec:
    """The same traffic as a closed loop."""
    return dataclasses.replace(traffic, loop="closed", outstanding=CLOSED_LOOP, rate=0.0, capture="")
