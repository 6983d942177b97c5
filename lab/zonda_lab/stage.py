"""One start of one server on its rig, watched: what every procedure works with."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zonda_lab import probe, telemetry, zonegen
from zonda_lab.credentials import TSIG, certificate
from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiment import Settings, Traffic
from zonda_lab.host import Host, Network
from zonda_lab.load import GRACE_S, Generator, LoadResult, QueryJob, events, merged
from zonda_lab.model import Certificate, Endpoint, Primary, Setup, Zone
from zonda_lab.process import Program, descendants, thread_run_ns, threads
from zonda_lab.rig import Rig
from zonda_lab.series import Telemetry
from zonda_lab.servers import Feature, Installed
from zonda_lab.workload import Workload, workload
from zonda_lab.zonegen import ZoneSet

VALID, INVALID = 0, 3  # exit statuses of a generator that has a result
CAPACITY_S = 2.0  # or a window, if that is shorter
CLOSED_LOOP = 200
SCRATCH = "zonda-lab-"  # and the process id of the lab, so that what a killed one left can be told
PYTHON = sys.executable or "python3"


@dataclass
class Server:
    """A server that runs."""

    installed: Installed
    setup: Setup
    process: Program
    first_answer_s: float = 0.0

    @property
    def checked(self) -> bool:
        """Can its answers be right or wrong? An echo's cannot."""
        return Feature.ZONES in self.installed.adapter.features(self.installed.version)


@dataclass
class Span:
    """A stretch of time on the stage and the CPU time that was used in it."""

    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    server_cpu_s: float = 0.0
    own_cpu_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ended - self.began


def local_network(settings: Settings) -> Network:
    """Both ends on this machine."""
    return Rig(settings.rig, settings.primary.addresses if settings.primary.name else 0)


class Stage:
    """Rig, zones, processes and telemetry of one start; leaving it ends and removes all of them."""

    def __init__(
        self,
        settings: Settings,
        installed: Mapping[str, Installed],
        generator: Generator,
        network: Callable[[Settings], Network] = local_network,
    ) -> None:
        self.settings, self.generator, self._installed, self._network = settings, generator, installed, network
        self._open = contextlib.ExitStack()
        self._labels: dict[str, int] = {}
        self._capacity: dict[object, float] = {}

    def __enter__(self) -> Stage:
        try:
            self._enter()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _enter(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-"))
        self._open.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.zones: ZoneSet = zonegen.generate(self.settings.zones)
        self.rig = self._open.enter_context(self._network(self.settings))
        self.telemetry_file = self.folder / "telemetry.jsonl"
        host, watching = self.rig.watch
        labels = self.folder / "labels.json"
        labels.write_text("{}")
        host.place(labels, Path(telemetry.__file__))
        argv: list[str | Path] = [PYTHON, telemetry.__file__, "--labels", labels, *watching]
        cpus = self.settings.rig.load_cpus
        self._open.enter_context(host.start("telemetry", argv, self.telemetry_file, cpus))

    @property
    def endpoint(self) -> Endpoint:
        """Where the server under test listens."""
        return Endpoint(self.rig.server_address)

    def installed(self, label: str) -> Installed:
        """The program behind a label."""
        if label not in self._installed:
            raise UnsupportedError(
                f"{label} is not there", f"`zonda-lab servers` tells why; found: {', '.join(self._installed)}"
            )
        return self._installed[label]

    def require(self, server: Installed, *features: Feature) -> None:
        """Skips the treatment if the server lacks something."""
        for feature in features:
            if feature not in server.adapter.features(server.version):
                raise UnsupportedError(f"{server.label} {server.version} cannot do {feature.value}")

    def start_process(self, label: str, argv: Sequence[str | Path]) -> Program:
        """A program at the client's end, on the generator's CPUs, until the stage is left."""
        log = self.folder / f"{label}.log"
        process = self._open.enter_context(self.rig.client.start(label, argv, log, self.settings.rig.load_cpus))
        self._label(label, process, self.rig.client)
        return process

    def start_server(self, zones: Sequence[Zone] | None = None, updates: bool = False) -> Server:
        """The server under test, ready: it has answered for its last zone."""
        spec, rig, installed = self.settings.server, self.settings.rig, self.installed(self.settings.server.name)
        tls = self.settings.traffic.transport == "tls"
        if tls:
            self.require(installed, Feature.TLS)
        setup = Setup(
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
        self._prepare(installed, setup, self.rig.server)
        if self.settings.timing.cold_cache:
            forget_pages([zone.file for zone in setup.zones if zone.file])
        command, log = installed.adapter.command(installed.program, setup), self.folder / "server.log"
        started = self.rig.server.start("server", command, log, rig.server_cpus, rig.descriptors)
        process = self._open.enter_context(started)
        self._label("server", process, self.rig.server)
        return Server(installed, setup, process)

    def _prepare(self, installed: Installed, setup: Setup, host: Host) -> None:
        """Configuration and zones, where the server will look for them."""
        installed.adapter.prepare(setup)
        folders = {zone.file.parent for zone in setup.zones if zone.file}
        host.place(setup.directory, *folders, *_credentials(setup))

    def wait_ready(self, server: Server, zone: str | None = None) -> float:
        """Seconds from the start of `server` to its first answer for `zone` (its last one)."""
        end = self.rig.client if server.setup.endpoint == self.endpoint else self.rig.server
        name = zone or server.setup.zones[-1].name
        server.first_answer_s = probe.wait_ready(
            server.process, end, server.setup.endpoint, name, self.settings.timing.ready_s
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
        addresses = [self.rig.primary_address(number) for number in range(spec.addresses)]
        setup = Setup(
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
        self._prepare(installed, setup, self.rig.client)
        process = self.start_process("primary", installed.adapter.command(installed.program, setup))
        server = Server(installed, setup, process)
        self.wait_ready(server)
        return server

    def secondary_zones(self) -> list[Zone]:
        """The zones as a secondary has them: no file, a primary."""
        spec = self.settings.primary
        tls = self.certificate if spec.transport == "tls" else None
        primaries = [Primary(Endpoint(self.rig.primary_address(number)), tls) for number in range(spec.addresses)]
        return [Zone(zone.name, primary=primaries[i % len(primaries)]) for i, zone in enumerate(self.zones.zones)]

    @property
    def certificate(self) -> Certificate:
        """A certificate for this stage."""
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
            endpoint=server.setup.endpoint,
            workload=workload(settings.zones, settings.queries),
            seconds=settings.timing.seconds if seconds is None else seconds,
            verify=server.checked,
            authority=self.authority(settings),
        )

    def load(self, job: QueryJob) -> LoadResult:
        """Runs the generator to its end: on every player its part of the rate."""
        players = self.rig.players
        part = dataclasses.replace(job, rate=job.rate / len(players))
        for player in players:
            authority = [job.authority.certificate] if job.authority else []
            player.place(job.workload.queries, job.workload.expectation, *authority)
        outputs = self._run_all(players, self.generator.query(part), job.seconds + job.warm_up_s)
        return merged([self.generator.parse(output, part) for output in outputs])

    def run_load(
        self, argv: Sequence[str | Path], seconds: float, on_event: Callable[[str], None] = lambda _: None
    ) -> str:
        """Runs one generator command; `on_event` hears the type of each event that it prints. Returns its output."""
        return self._run_all([self.rig.client], argv, seconds, on_event)[0]

    def _run_all(
        self,
        hosts: Sequence[Host],
        argv: Sequence[str | Path],
        seconds: float,
        on_event: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        """One command on all those hosts at once, to its end; returns what each printed."""
        heard = 0
        with contextlib.ExitStack() as running:
            programs = [running.enter_context(self._start_load(host, argv, i)) for i, host in enumerate(hosts)]
            deadline = time.monotonic() + seconds + GRACE_S
            while any(program.alive for program in programs):
                time.sleep(0.01)
                if time.monotonic() > deadline:
                    late = f"the load generator did not end {GRACE_S:.0f} s after its time"
                    raise LabError(late, programs[0].tail())
                found = [event["msg_type"] for event in events(programs[0].log.read_text()) if "msg_type" in event]
                for name in found[heard:]:
                    on_event(name)
                heard = len(found)
        for program in programs:
            if program.status not in (VALID, INVALID):
                raise LabError(f"the load generator failed with status {program.status}", program.tail())
        return [program.log.read_text() for program in programs]

    def _start_load(self, host: Host, argv: Sequence[str | Path], number: int) -> Program:
        log = self.folder / f"load{number}.log"
        log.unlink(missing_ok=True)
        program = host.start("load", argv, log, self.settings.rig.load_cpus)
        self._label("load", program, host)
        return program

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
                server.setup.endpoint,
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
        span, before, own_before = Span(), server.process.cpu_s(), self._own_cpu_s()
        yield span
        span.ended = time.monotonic()
        span.server_cpu_s = server.process.cpu_s() - before
        span.own_cpu_s = span.server_cpu_s + self._own_cpu_s() - own_before

    def observed(self, span: Span) -> Telemetry:
        """The telemetry of a span."""
        return self.latest().between(span.began, span.ended)

    def latest(self) -> Telemetry:
        """The telemetry so far, by our clock."""
        return Telemetry.load(self.telemetry_file).shifted(-self.rig.watch[0].clock_offset_s)

    def reload(self, server: Server) -> None:
        """Has the server read its changed zone files; its configuration is written anew, or some would not look."""
        self._prepare(server.installed, server.setup, self.rig.server)
        if command := server.installed.adapter.reload_command(server.setup):
            self.rig.server.run(*command)
        else:
            server.process.signal(signal.SIGHUP)

    def _own_cpu_s(self) -> float:
        """CPU time of the lab itself and all it started, also of what has ended."""
        times = os.times()
        living = [pid for label, pid in self._labels.items() if label != "server"]
        running = sum(thread_run_ns(task) for task in threads([below for pid in living for below in descendants(pid)]))
        return times.user + times.system + times.children_user + times.children_system + running / 1e9

    def _label(self, label: str, program: Program, host: Host) -> None:
        """Tells telemetry of a program, if it can see it."""
        if not self.rig.watched(host):
            return
        self._labels[label] = program.pid
        path = self.folder / "labels.json"
        path.write_text(json.dumps(self._labels))
        self.rig.watch[0].place(path)


def _credentials(setup: Setup) -> list[Path]:
    """The files of keys that a server reads."""
    used = [certificate for certificate in (setup.certificate, setup.authority) if certificate]
    return [path for each in used for path in (each.certificate, each.key)]


def forget_pages(files: Sequence[Path]) -> None:
    """Has the kernel forget what it holds of those files: the next reader goes to the disk."""
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sweep() -> None:
    """Removes what labs that were killed left in the folder of temporary files: those whose process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*-*"):
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


def _closed(traffic: Traffic) -> Traffic:
    """The same traffic in a closed loop, whatever its rate."""
    return dataclasses.replace(traffic, loop="closed", outstanding=CLOSED_LOOP, rate=0.0)
