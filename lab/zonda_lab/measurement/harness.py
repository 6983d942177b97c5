"""The test harness of one start: network, zones, server, primary, load generator and telemetry."""

import contextlib
import functools
import json
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from zonda_lab.errors import UnsupportedError
from zonda_lab.experiments.definition import Settings
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.load.zonda_load import ZondaLoad, require_zonda_load
from zonda_lab.load.zone_probe import Arrivals, ZoneProbe
from zonda_lab.measurement.environment import Environment
from zonda_lab.measurement.load_runner import EchoRate, LoadRunner
from zonda_lab.measurement.observer import Observer, Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.rig import readiness, server_sockets
from zonda_lab.rig.host import Host, Network, drop_page_cache
from zonda_lab.rig.process import Program
from zonda_lab.scratch import scratch_folder
from zonda_lab.servers import Feature, InstalledServer
from zonda_lab.servers.config import (
    Access,
    Certificate,
    Endpoint,
    Remote,
    ServerConfig,
    TlsRemote,
    Tsig,
    Zone,
    ZonePolicy,
    with_policy,
)
from zonda_lab.servers.credentials import TSIG, certificate
from zonda_lab.servers.generator_servers import NullPrimary
from zonda_lab.zones import zonegen
from zonda_lab.zones.zonegen import ZoneSet

MakeNetwork = Callable[[Settings], Network]


class Harness:
    """Rig, zones, processes and telemetry of one start; leaving it ends and removes all of them."""

    def __init__(
        self,
        settings: Settings,
        installed: Mapping[str, InstalledServer],
        generator: LoadGenerator,
        make_network: MakeNetwork | None = None,
        echo_qps: EchoRate | None = None,
    ) -> None:
        self.settings, self._installed, self._generator, self._echo_qps = settings, installed, generator, echo_qps
        self._make_network = make_network or Environment().network
        self._open = contextlib.ExitStack()
        self._probes = 0
        self._started: Program | None = None  # the server under test

    def __enter__(self) -> Self:
        try:
            self._enter()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def _enter(self) -> None:
        self.folder = self._open.enter_context(scratch_folder())
        self.zones: ZoneSet = zonegen.generate(self.settings.zones)
        self.network = self._open.enter_context(self._make_network(self.settings))
        self.observer = Observer(self.network.telemetry_targets, self.folder)
        for collector in self.observer.start():
            self._open.enter_context(collector)
        network, cpus, label = self.network, self.settings.rig.load_cpus, self.observer.label
        self.load = LoadRunner(
            self._generator, network, self.folder, cpus, label, lambda: self.certificate, self._echo_qps
        )

    @property
    def endpoint(self) -> Endpoint:
        """Where the server under test listens."""
        return Endpoint(self.network.server_address, quic_port=853 if self.settings.traffic.transport == "quic" else 0)

    @property
    def zonda_load(self) -> ZondaLoad:
        """The load generator, for more than queries; raises UnsupportedError if it is another one."""
        return require_zonda_load(self._generator)

    @functools.cached_property
    def certificate(self) -> Certificate:
        """A certificate for the servers of this start."""
        return certificate(self.folder)

    @property
    def key(self) -> Tsig | None:
        """The TSIG key of transfers and updates, if the experiment signs them."""
        return TSIG if self.settings.primary.tsig else None

    def installed(self, label: str) -> InstalledServer:
        """The installed server with that label."""
        if label not in self._installed:
            help_text = f"`zonda-lab servers` shows why; installed: {', '.join(self._installed)}"
            raise UnsupportedError(f"server `{label}` is not installed", help_text)
        return self._installed[label]

    def require(self, server: InstalledServer, *features: Feature | None) -> None:
        """Raises UnsupportedError, which skips the treatment, if the server lacks a feature; ignores None."""
        for feature in filter(None, features):
            if feature not in server.features:
                raise UnsupportedError(f"{server.label} {server.version} does not support {feature.value}")

    def start_process(self, label: str, argv: Sequence[str | Path]) -> Program:
        """Starts a program on the client host and the generator's CPUs; it runs until the harness is closed."""
        return self._start_on(self.network.client, label, argv, self.settings.rig.load_cpus)

    def _start_on(
        self, host: Host, label: str, argv: Sequence[str | Path], cpus: Sequence[int], descriptors: int = 0
    ) -> Program:
        started = host.start(label, argv, self.folder / f"{label}.log", cpus, descriptors)
        process = self._open.enter_context(started)
        self.observer.label(label, process, host)
        return process

    def start_server(self, zones: Sequence[Zone] | None = None, updates: bool = False) -> Server:
        """Starts the server under test, without waiting for it."""
        spec, rig, installed = self.settings.server, self.settings.rig, self.installed(self.settings.server.name)
        traffic = self.settings.traffic
        if traffic.is_encrypted:
            self.require(installed, Feature.QUIC if traffic.transport == "quic" else Feature.TLS)
        trusted = (Access(self.key),)
        config = ServerConfig(
            directory=self.folder / "server",
            endpoint=self.endpoint,
            zones=with_policy(
                self.zones.zones if zones is None else zones, transfer=trusted, update=trusted if updates else ()
            ),
            workers=spec.workers,
            cpus=tuple(rig.server_cpus),
            tcp_clients=spec.tcp_clients,
            tcp_idle_s=spec.tcp_idle_s,
            certificate=self.certificate if traffic.is_encrypted else None,
            parallel_transfers=self.settings.primary.parallel_transfers,
            tuned=spec.settings == "tuned",
            options=tuple(spec.options.get(installed.adapter.name, ())),
        )
        host = self.network.server
        self._prepare(installed, config, host)
        if self.settings.timing.cold_cache:
            drop_page_cache(host, self.folder / "cold.txt", [zone.file for zone in config.zones if zone.file])
        command = installed.adapter.command(installed.program, config)
        self._started = self._start_on(host, "server", command, rig.server_cpus, rig.descriptors)
        return Server(installed, config, self._started)

    def start_ready_server(self, zones: Sequence[Zone] | None = None) -> Server:
        """Starts the server under test and waits until it answers."""
        server = self.start_server(zones)
        self.wait_ready(server)
        return server

    def _prepare(self, installed: InstalledServer, config: ServerConfig, host: Host) -> None:
        """Writes the configuration and copies it and the zones to the host."""
        installed.adapter.prepare(config)
        folders = {zone.file.parent for zone in config.zones if zone.file}
        host.place(config.directory, *folders, *config.credentials)

    def wait_ready(self, server: Server) -> float:
        """Seconds from the start of `server` to its first answer for its last zone."""
        end = self.network.client if server.config.endpoint == self.endpoint else self.network.server
        zone, limit_s = server.config.zones[-1].name, self.settings.timing.ready_s
        server.first_answer_s = readiness.wait_ready(server.process, end, server.config.endpoint, zone, limit_s)
        self.settle_sockets(server)
        return server.first_answer_s

    def settle_sockets(self, server: Server, change: bool = True) -> None:
        """Gives the server the receive buffer and backlog that all servers have, if tuned, and reads both."""
        spec = self.settings.server
        host = self.network.server if server.config.endpoint == self.endpoint else self.network.primary
        wanted = ["--receive-buffer", str(spec.receive_buffer), "--backlog", str(spec.backlog)]
        tuning = wanted if change and server.config.tuned else []
        printed = self.run_script(host, server_sockets, str(server.process.pid), *tuning)
        own = {(found["kind"], found["port"]): found["own_receive_buffer"] for found in server.sockets}
        server.sockets = [json.loads(line) for line in printed.splitlines()]
        for found in server.sockets:  # as it was before the lab changed it
            found["own_receive_buffer"] = own.get((found["kind"], found["port"]), found["own_receive_buffer"])

    def run_script(self, host: Host, module: ModuleType, *arguments: str) -> str:
        """Runs a module that needs only the standard library on a host; returns what it prints."""
        script = self.folder / Path(module.__file__ or "").name
        shutil.copyfile(module.__file__ or "", script)
        host.place(script)
        return host.run(host.python, script, *arguments)

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
        if spec.changes_per_s and spec.name != NullPrimary.name:
            help_text = f"set `primary.name` to {NullPrimary.name}"
            raise UnsupportedError(f"{spec.name} does not change its zones", help_text)
        addresses = [self.network.primary_address(number) for number in range(spec.addresses)]
        notified = tuple(Remote(to.address, to.port) for to in notify)
        config = ServerConfig(
            directory=self.folder / "primary",
            endpoint=Endpoint(addresses[0]),
            more_addresses=tuple(addresses[1:]),
            zones=with_policy(zones, transfer=(Access(self.key),), notify=notified),
            workers=1,
            tcp_clients=4000,
            certificate=self.certificate if spec.transport == "tls" else None,
            changes_per_s=spec.changes_per_s,
            tuned=self.settings.server.settings == "tuned",
        )
        self._prepare(installed, config, self.network.primary)
        command = installed.adapter.command(installed.program, config)
        process = self._start_on(self.network.primary, "primary", command, self.settings.rig.load_cpus)
        server = Server(installed, config, process)
        self.wait_ready(server)
        return server

    def secondary_zones(self) -> list[Zone]:
        """The zones as a secondary is configured with them: a primary instead of a file."""
        spec, port, tls = self.settings.primary, self.endpoint.port, None
        if spec.transport == "tls":
            port, tls = self.endpoint.tls_port, TlsRemote(self.certificate.name, self.certificate.certificate)
        addresses = [self.network.primary_address(number) for number in range(spec.addresses)]
        remotes = [Remote(address, port, self.key, tls) for address in addresses]
        policies = [ZonePolicy((remote,), notified_by=(Access(),)) for remote in remotes]
        return [Zone(zone.name, policy=policies[i % len(policies)]) for i, zone in enumerate(self.zones.zones)]

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

    def start_probe(self, names: Sequence[str], seconds: float, serial: int = 0) -> ZoneProbe:
        """Asks for each zone until it is answered, with `serial` if given, and for at most `seconds`.

        Returns when the first query has been sent, so that the server can be started after it.
        """
        self._probes += 1
        label = f"probe{self._probes}"
        zones, arrivals = self.folder / f"{label}.zones", self.folder / f"{label}.arrivals"
        zones.write_text("".join(f"{name}\n" for name in names))
        self.network.client.place(zones)
        process = self.start_process(label, self.zonda_load.probe(self.endpoint, zones, arrivals, seconds, serial))
        probe = ZoneProbe(self.network.client, process, len(names), arrivals, seconds)
        probe.wait_started()
        return probe

    def arrivals(self, probe: ZoneProbe, server: Server) -> Arrivals:
        """Waits for the end of a probe, as long as the server lives."""
        return probe.arrivals(self.observer.clock(self.network.client), server.process.require_alive)

    def span(self, server: Server | None = None) -> contextlib.AbstractContextManager[Span]:
        """Measures the block, with telemetry right before and after it; without `server`, the block starts it."""
        return self.observer.span(server.process if server else None, lambda: self._started)

    def reload(self, server: Server) -> float:
        """Makes the server reload changed zone files; returns when it was asked to, by the lab's monotonic clock."""
        self._prepare(server.installed, server.config, self.network.server)  # some require a newer configuration file
        asked = time.monotonic()
        if command := server.installed.adapter.reload_command(server.config):
            self.network.server.run(*command)
        else:
            server.process.signal(signal.SIGHUP)
        return asked
