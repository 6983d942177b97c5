"""One start of one server on its rig, watched: what every procedure works with."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zonda_lab import probe, zonegen
from zonda_lab.credentials import TSIG, certificate
from zonda_lab.environment import Environment
from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiment import Settings, TrafficSpec
from zonda_lab.host import Host, Network, forget_pages
from zonda_lab.load_generator import GRACE_S, LoadGenerator, LoadResult, QueryJob, events, merged
from zonda_lab.process import Program
from zonda_lab.server_config import Certificate, Endpoint, Primary, ServerConfig, Zone
from zonda_lab.servers import Feature, InstalledServer
from zonda_lab.telemetry_collector import TelemetryCollector
from zonda_lab.telemetry_series import Telemetry, with_clients
from zonda_lab.workload import Workload, workload
from zonda_lab.zonegen import ZoneSet

VALID, INVALID = 0, 3  # exit statuses of a generator that has a result
CAPACITY_S = 2.0  # or a window, if that is shorter
# How often the lab looks what the generator has printed: a look at cold caches costs the generator a millisecond.
LOOK_S = 0.1
CLOSED_LOOP = 200
SCRATCH = "zonda-lab-"  # and the process id of the lab, so that what a killed one left can be told


@dataclass
class Server:
    """A server that runs."""

    installed: InstalledServer
    config: ServerConfig
    process: Program
    first_answer_s: float = 0.0

    @property
    def checked(self) -> bool:
        """Can its answers be right or wrong? An echo's cannot."""
        return Feature.ZONES in self.installed.adapter.features(self.installed.version)


@dataclass
class Span:
    """A stretch of time on the harness and the CPU time that was used in it."""

    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    server_cpu_s: float = 0.0
    own_cpu_s: float = 0.0  # on the server's machine
    elsewhere_cpu_s: dict[str, float] = field(default_factory=dict)  # own, on each other machine

    @property
    def seconds(self) -> float:
        """Its length."""
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
    ) -> None:
        self.settings, self.generator, self._installed, self._make_network = (
            settings,
            generator,
            installed,
            make_network or Environment().network,
        )
        self._open = contextlib.ExitStack()
        self._capacity: dict[object, float] = {}

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
            TelemetryCollector(watch, self.folder / f"watch{i}")
            for i, watch in enumerate(self.network.telemetry_targets)
        ]
        for collector in self._collectors:
            self._open.enter_context(collector.start())

    @property
    def telemetry_file(self) -> Path:
        """What is known of the server's machine, as it was written."""
        return self._collectors[0].file

    @property
    def endpoint(self) -> Endpoint:
        """Where the server under test listens."""
        return Endpoint(self.network.server_address)

    def installed(self, label: str) -> InstalledServer:
        """The program behind a label."""
        if label not in self._installed:
            raise UnsupportedError(
                f"{label} is not there", f"`zonda-lab servers` tells why; found: {', '.join(self._installed)}"
            )
        return self._installed[label]

    def require(self, server: InstalledServer, *features: Feature) -> None:
        """Skips the treatment if the server lacks something."""
        for feature in features:
            if feature not in server.adapter.features(server.version):
                raise UnsupportedError(f"{server.label} {server.version} cannot do {feature.value}")

    def start_process(self, label: str, argv: Sequence[str | Path]) -> Program:
        """A program at the client's end, on the generator's CPUs, until the harness is left."""
        return self._start_on(self.network.client, label, argv)

    def _start_on(self, host: Host, label: str, argv: Sequence[str | Path]) -> Program:
        log = self.folder / f"{label}.log"
        process = self._open.enter_context(host.start(label, argv, log, self.settings.rig.load_cpus))
        self._label(label, process, host)
        return process

    def start_server(self, zones: Sequence[Zone] | None = None, updates: bool = False) -> Server:
        """The server under test, ready: it has answered for its last zone."""
        spec, rig, installed = self.settings.server, self.settings.rig, self.installed(self.settings.server.name)
        tls = self.settings.traffic.transport == "tls"
        if tls:
            self.require(installed, Feature.TLS)
        config = ServerConfig(
            directory=self.folder / "server",
            endpoint=self.endpoint,
            zones=tuple(self.zones.zones if zones is None else zones),
            workers=spec.workers,
            tcp_clients=spec.tcp_clients,
            tcp_idle_s=spec.tcp_idle_s,
            certificate=self.certificate if tls else None,
            tsig=TSIG if self.settings.primary.tsig else None,
            parallel_transfers=self.settings.primary.parallel_transfers,
            updates=updates,
            options=tuple(spec.options.get(installed.adapter.name, ())),
        )
        self._prepare(installed, config, self.network.server)
        if self.settings.timing.cold_cache:
            forget_pages(
                self.network.server, self.folder / "cold.txt", [zone.file for zone in config.zones if zone.file]
            )
        command, log = installed.adapter.command(installed.program, config), self.folder / "server.log"
        started = self.network.server.start("server", command, log, rig.server_cpus, rig.descriptors)
        process = self._open.enter_context(started)
        self._label("server", process, self.network.server)
        return Server(installed, config, process)

    def _prepare(self, installed: InstalledServer, config: ServerConfig, host: Host) -> None:
        """Configuration and zones, where the server will look for them."""
        installed.adapter.prepare(config)
        folders = {zone.file.parent for zone in config.zones if zone.file}
        host.place(config.directory, *folders, *_credentials(config))

    def wait_ready(self, server: Server, zone: str | None = None) -> float:
        """Seconds from the start of `server` to its first answer for `zone` (its last one)."""
        end = self.network.client if server.config.endpoint == self.endpoint else self.network.server
        name = zone or server.config.zones[-1].name
        server.first_answer_s = probe.wait_ready(
            server.process, end, server.config.endpoint, name, self.settings.timing.ready_s
        )
        return server.first_answer_s

    def start_primary(self, zones: Sequence[Zone], notify: tuple[Endpoint, ...] = ()) -> Server:
        """The primary at the client's end, ready; zones are spread over its addresses by `secondary_zones`."""
        spec, installed = self.settings.primary, self.installed(self.settings.primary.name)
        self.require(
            installed,
            Feature.TRANSFER_OUT,
            *([Feature.XOT_OUT] if spec.transport == "tls" else []),
            *([Feature.TSIG] if spec.tsig else []),
        )
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
        )
        self._prepare(installed, config, self.network.primary)
        process = self._start_on(self.network.primary, "primary", installed.adapter.command(installed.program, config))
        server = Server(installed, config, process)
        self.wait_ready(server)
        return server

    def secondary_zones(self) -> list[Zone]:
        """The zones as a secondary has them: no file, a primary."""
        spec = self.settings.primary
        tls = self.certificate if spec.transport == "tls" else None
        primaries = [Primary(Endpoint(self.network.primary_address(number)), tls) for number in range(spec.addresses)]
        return [Zone(zone.name, primary=primaries[i % len(primaries)]) for i, zone in enumerate(self.zones.zones)]

    @property
    def certificate(self) -> Certificate:
        """A certificate for this harness."""
        if not hasattr(self, "_certificate"):
            self._certificate = certificate(self.folder)
        return self._certificate

    def changeable_zones(self) -> list[Zone]:
        """Copies of the zone files that may be changed."""
        if self.settings.zones.signed != "no":
            raise UnsupportedError("a signed zone cannot be changed here: its SOA would need a new signature")
        copies = []
        for i, zone in enumerate(self.zones.zones):
            path = self.folder / "zones" / zonegen.file_name(i)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(zone.file or "", path)
            copies.append(Zone(zone.name, path))
        return copies

    def workload(self) -> Workload:
        """The query file that fits the zones."""
        return workload(self.settings.zones, self.settings.queries)

    def job(
        self, settings: Settings, server: Server, seconds: float | None = None, rate: float | None = None
    ) -> QueryJob:
        """The queries that `settings` (those of one window) ask for."""
        return QueryJob(
            traffic=settings.traffic,
            rate=self.rate(settings, server) if rate is None else rate,
            endpoint=server.config.endpoint,
            workload=workload(settings.zones, settings.queries),
            seconds=settings.timing.seconds if seconds is None else seconds,
            verify=server.checked,
            authority=self.authority(settings),
        )

    def load(self, job: QueryJob) -> LoadResult:
        """Runs the generator to its end: on every player its part of the rate."""
        players = self.network.players
        parts = [
            dataclasses.replace(
                job, rate=job.rate / len(players), source_prefix=self.sources(player, job.traffic.sources)
            )
            for player in players
        ]
        for player in players:
            authority = [job.authority.certificate] if job.authority else []
            player.place(job.workload.queries, job.workload.expectation, *authority)
        commands = [(player, self.generator.query(part)) for player, part in zip(players, parts, strict=True)]
        outputs = self._run_all(commands, job.seconds + job.warm_up_s)
        return merged([self.generator.parse(output, part) for output, part in zip(outputs, parts, strict=True)])

    def sources(self, host: Host, count: int) -> str:
        """The prefix of `count` source addresses at that host; empty if one address does."""
        return host.sources if count > 1 else ""

    def run_load(
        self, argv: Sequence[str | Path], seconds: float, on_event: Callable[[str], None] = lambda _: None
    ) -> str:
        """Runs one generator command; `on_event` hears the type of each event that it prints. Returns its output."""
        self.network.client.place(*(word for word in argv if isinstance(word, Path) and word != self.generator.program))
        return self._run_all([(self.network.client, argv)], seconds, on_event)[0]

    def _run_all(
        self,
        commands: Sequence[tuple[Host, Sequence[str | Path]]],
        seconds: float,
        on_event: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        """All those commands at once, to their end; returns what each printed."""
        heard = read = 0
        with contextlib.ExitStack() as running:
            programs = [running.enter_context(self._start_load(*command, i)) for i, command in enumerate(commands)]
            for (host, _), program in zip(commands, programs, strict=True):
                self._label("load", program, host)
            deadline = time.monotonic() + seconds + GRACE_S
            while living := [program for program in programs if program.alive]:
                living[0].wait(LOOK_S)
                _check_loads(commands, programs)
                if time.monotonic() > deadline:
                    late = f"the load generator did not end {GRACE_S:.0f} s after its time"
                    raise LabError(late, programs[0].tail())
                if programs[0].log.stat().st_size == read:
                    continue
                text = programs[0].log.read_text()
                found = [event["msg_type"] for event in events(text) if "msg_type" in event]
                for name in found[heard:]:
                    on_event(name)
                heard, read = len(found), len(text)
            _check_loads(commands, programs)
        return [program.log.read_text() for program in programs]

    def _start_load(self, host: Host, argv: Sequence[str | Path], number: int) -> Program:
        log = self.folder / f"load{number}.log"
        log.unlink(missing_ok=True)
        return host.start("load", argv, log, self.settings.rig.load_cpus)

    def rate(self, settings: Settings, server: Server) -> float:
        """Queries a second; "50%" is a share of the capacity of this very start."""
        rate = settings.traffic.rate
        if isinstance(rate, str):
            return self.capacity(settings, server) * float(rate.rstrip("%")) / 100
        return rate

    def capacity(self, settings: Settings, server: Server) -> float:
        """Answers a second in a closed loop, measured once a start for each kind of traffic."""
        traffic = _closed(settings.traffic)
        if traffic not in self._capacity:
            job = QueryJob(
                traffic,
                0.0,
                server.config.endpoint,
                self.workload(),
                min(CAPACITY_S, settings.timing.seconds),
                verify=False,
                authority=self.authority(settings),
            )
            result = self.load(job)
            self._capacity[traffic] = result.answered / result.seconds
        return self._capacity[traffic]

    def authority(self, settings: Settings) -> Certificate | None:
        """Who vouches for the server, if it is asked over TLS."""
        return self.certificate if settings.traffic.transport == "tls" else None

    @contextlib.contextmanager
    def span(self, server: Server) -> Iterator[Span]:
        """Takes the time and the CPU time of what is done inside."""
        own_before, before = [collector.own_cpu_s() for collector in self._collectors], server.process.cpu_s()
        span = Span()
        yield span
        span.ended = time.monotonic()
        span.server_cpu_s = server.process.cpu_s() - before
        own = [collector.own_cpu_s() - before for collector, before in zip(self._collectors, own_before, strict=True)]
        span.own_cpu_s = span.server_cpu_s + own[0]
        others = zip(self._collectors[1:], own[1:], strict=True)
        span.elsewhere_cpu_s = {collector.host.name: cpu_s for collector, cpu_s in others}

    def observed(self, span: Span) -> Telemetry:
        """The telemetry of a span."""
        return self.latest().between(span.began, span.ended)

    def latest(self) -> Telemetry:
        """The telemetry of the server's machine so far, with the counters of the players' ends, by our clock."""
        first, *others = [collector.telemetry() for collector in self._collectors]
        return with_clients(first, others)

    def elsewhere(self, span: Span) -> dict[str, Telemetry]:
        """The telemetry of a span on every machine but the server's, by the name of its host."""
        return {
            collector.host.name: collector.telemetry().between(span.began, span.ended)
            for collector in self._collectors[1:]
        }

    def reload(self, server: Server) -> None:
        """Has the server read its changed zone files; its configuration is written anew, or some would not look."""
        self._prepare(server.installed, server.config, self.network.server)
        if command := server.installed.adapter.reload_command(server.config):
            self.network.server.run(*command)
        else:
            server.process.signal(signal.SIGHUP)

    def _label(self, label: str, program: Program, host: Host) -> None:
        """Tells telemetry of a program, where it can see it."""
        for collector in self._collectors:
            if collector.sees(host):
                collector.label(label, program)


def _check_loads(commands: Sequence[tuple[Host, Sequence[str | Path]]], programs: Sequence[Program]) -> None:
    """Raises for the first generator that has ended without a result: what the others still do is of no use then."""
    for (host, _), program in zip(commands, programs, strict=True):
        if program.status not in (None, VALID, INVALID):
            raise LabError(f"{host.name}: the load generator failed with status {program.status}", program.tail())


def _credentials(config: ServerConfig) -> list[Path]:
    """The files of keys that a server reads."""
    return [*_files(config.certificate), *_files(config.authority)]


def _files(certificate: Certificate | None) -> list[Path]:
    return [certificate.certificate, certificate.key] if certificate else []


def sweep(below: Path | None = None) -> None:
    """Removes what labs that were killed left in a folder (that of temporary files): those whose process is gone."""
    for folder in (below or Path(tempfile.gettempdir())).glob(f"{SCRATCH}*-*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


def set_serial(zone: Path, number: int) -> None:
    """Changes the serial of a generated zone in place: it has ten digits and stands in the first line."""
    with zone.open("r+") as file:
        soa = file.readline().split()
        at = len(" ".join(soa[:6])) + 1
        if soa[3] != "SOA" or not (10**9 <= number < 2**32):
            raise LabError(f"{zone}: no serial to change")
        file.seek(at)
        file.write(str(number))


def _closed(traffic: TrafficSpec) -> TrafficSpec:
    """The same traffic in a closed loop, whatever its rate."""
    return dataclasses.replace(traffic, loop="closed", outstanding=CLOSED_LOOP, rate=0.0)
