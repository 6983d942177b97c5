"""The machines of an inventory as test environment and network: connected per run, checked per start.

Messages about a missing requirement show the command that fulfils it.
"""

import contextlib
import hashlib
import ipaddress
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import RigSpec, Settings
from zonda_lab.fleet.inventory import UPLOAD, HostSpec, Inventory
from zonda_lab.fleet.remote_host import SCRIPTS, RemoteHost
from zonda_lab.fleet.ssh import ConnectionLostError
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.measurement.environment import Environment
from zonda_lab.rig.host import TelemetryTarget
from zonda_lab.scratch import scratch_folder
from zonda_lab.servers import ADAPTERS, Adapter, InstalledServer
from zonda_lab.servers.adapter import version_in

OF_GENERATOR = ("echo", "sink", "null-primary")  # zonda-load as a server
ROUGH_S = 0.001  # larger clock uncertainties are noted in the records


class Fleet(Environment):
    """All machines; leaving the context stops all programs and removes the session's files."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory, self.work = inventory, Path(inventory.work)
        self._machines: dict[str, RemoteHost] = {}
        self._programs: dict[str, tuple[str, Path | None]] = {}  # local path -> name, program to upload
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._settle()
        except BaseException:
            self._open.close()
            raise
        return self

    def connect(self) -> None:
        """Connects all machines now instead of when needed."""
        for spec in self.inventory.hosts:
            self.machine(spec)
        for player in self.players:
            require_sources(self.server, player)

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _settle(self) -> None:
        """Creates the session folder in the work folder, whose path is the same on all machines."""
        self.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.work.stat().st_uid != os.geteuid():
            raise LabError(f"{self.work} is not ours", "name another folder by `work` in the inventory")
        self.session = self._open.enter_context(scratch_folder(self.work))
        for script in SCRIPTS:
            shutil.copy(str(script.__file__), self.session)
        self._open.enter_context(_files_in(self.session, self.work / "cache"))
        self._open.callback(self._close)

    def machine(self, spec: HostSpec) -> RemoteHost:
        """The machine; reconnects if the connection was lost."""
        known = self._machines.get(spec.name)
        if known is None or not known.alive:
            known = self._machines[spec.name] = self._connected(spec)
            _require_addresses(known)
            for path, (name, ours) in self._programs.items():
                self._find_on(known, path, name, ours)
        return known

    def _connected(self, spec: HostSpec) -> RemoteHost:
        """Connects to a machine; retries once if the connection is lost during setup."""
        pinned = spec is self.inventory.server
        with contextlib.suppress(ConnectionLostError):
            return RemoteHost(spec, self.work, self.session, pinned)
        return RemoteHost(spec, self.work, self.session, pinned)

    @property
    def server(self) -> RemoteHost:
        """The machine of the server under test."""
        return self.machine(self.inventory.server)

    @property
    def players(self) -> list[RemoteHost]:
        """The machines that generate load."""
        return [self.machine(spec) for spec in self.inventory.player]

    @property
    def primary(self) -> RemoteHost:
        """The machine of primaries."""
        return self.machine(self.inventory.primary or self.inventory.player[0])

    def network(self, settings: Settings) -> "FleetNetwork":
        return FleetNetwork(self, settings)

    def installed(self, adapter: Adapter, label: str = "", path: Path | None = None) -> InstalledServer:
        wanted = str(path) if path else self.inventory.server.programs.get(adapter.name, "")
        ours = adapter.find() if wanted == UPLOAD or adapter.name in OF_GENERATOR else None
        program = self._locate(self.server, adapter.name, ours, wanted)
        self._programs[program] = (adapter.name, ours)
        if self.primary is not self.server:
            self._find_on(self.primary, program, adapter.name, ours)
        version = version_in(self.server.printed([program, adapter.version_flag]))
        return InstalledServer(label or adapter.name, adapter, Path(program), version)

    def digest(self, installed: InstalledServer) -> str:
        return self.server.run("sha256sum", installed.program).split()[0]

    def generator_digest(self, generator: LoadGenerator) -> str:
        ours = str(generator.program)
        return ",".join(player.run("sha256sum", player.programs[ours]).split()[0] for player in self.players)

    def equip(self, generator: LoadGenerator) -> None:
        """Finds the load generator on every player; its version must equal the local one."""
        self._programs[str(generator.program)] = (generator.name, generator.program)
        for player in self.players:
            self._find_on(player, str(generator.program), generator.name, generator.program, needed=True)
            there = version_in(player.printed([generator.program, "--version"]))
            if generator.name == "zonda-load" and there != generator.version:
                raise LabError(
                    f"{player.name}: zonda-load {there} there, {generator.version} here",
                    'have ours copied: `zonda-load = "upload"` under [programs] of the inventory',
                )

    def describe(self) -> dict[str, Any]:
        """For the manifest: all machines with their clock offsets."""
        machines = {spec.name: self.machine(spec) for spec in self.inventory.hosts}
        known = {name: {**found.describe(), "clock": vars(found.read_clock())} for name, found in machines.items()}
        return {"machine": known[self.inventory.server.name], "machines": known}

    def _find_on(self, machine: RemoteHost, path: str, name: str, ours: Path | None, needed: bool = False) -> None:
        """Finds a program on a machine: where the inventory says, at the same path as here, or on PATH."""
        wanted = machine.spec.programs.get(name, "")
        upload = ours if wanted == UPLOAD or (ours and name in OF_GENERATOR) else None
        for candidate in [wanted] if wanted not in ("", UPLOAD) else [path, ""]:
            try:
                machine.programs[path] = self._locate(machine, name, upload, candidate)
                return
            except LabError:
                if needed and candidate != path:
                    raise

    def _locate(self, machine: RemoteHost, name: str, ours: Path | None, wanted: str) -> str:
        """The path of a program on a machine, after uploading `ours` if given."""
        if ours is not None:
            return str(self._uploaded(machine, ours))
        command = wanted or (ADAPTERS[name].program if name in ADAPTERS else name)
        try:
            return machine.run("sh", "-c", 'command -v "$1"', "sh", command).strip()
        except LabError:
            raise LabError(
                f"{machine.name}: no program {command}",
                f'install it there, or name its path or "upload" for {name} under [programs] of the inventory',
            ) from None

    def _uploaded(self, machine: RemoteHost, program: Path) -> Path:
        digest = hashlib.sha256(program.read_bytes()).hexdigest()[:12]
        copy = self.work / "programs" / digest / program.name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(program, copy)
        machine.place(copy)
        return copy

    def _close(self) -> None:
        for machine in self._machines.values():
            machine.close()


class FleetNetwork:
    """The machines during one start; their settings are checked, never changed."""

    is_isolated = False
    load_cpus: Sequence[int] = ()

    def __init__(self, fleet: Fleet, settings: Settings, players: Sequence[RemoteHost] = ()) -> None:
        self._fleet, self._settings, self._players, self.notes = fleet, settings, players, list[str]()
        self.server_address = fleet.inventory.server.address

    def __enter__(self) -> Self:
        self.server, self.primary = self._fleet.server, self._fleet.primary
        self.players = list(self._players or self._fleet.players)
        self.client = self.players[0]
        _require_rig(self.server, self.players, self._settings.rig)
        asked, there = self._settings.primary.addresses, len(self._primary_addresses)
        if self._settings.primary.name and asked > there:
            help_text = "give it more by `more-addresses` in the inventory"
            raise UnsupportedError(f"{self.primary.name} has {there} of {asked} addresses", help_text)
        for machine in (self.server, *self.players):
            clock = machine.read_clock()
            if clock.uncertainty_s > ROUGH_S:
                self.notes.append(f"{machine.name}: its clock is known to within {clock.uncertainty_s * 1e3:.1f} ms")
        return self

    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None:
        for machine in {id(machine): machine for machine in (self.server, *self.players, self.primary)}.values():
            machine.clear()
        if kind is not None and issubclass(kind, LabError):
            self._fleet.connect()  # reports a lost machine as the cause

    @property
    def server_cpus(self) -> Sequence[int]:
        return self.server.cpus_of(self._settings.rig.server_cpus)

    @property
    def telemetry_targets(self) -> Sequence[TelemetryTarget]:
        ends = [("server", self.server), *(("client", player) for player in self.players)]
        return [TelemetryTarget(machine, [machine], ["--net", f"{end}="]) for end, machine in ends]

    def primary_address(self, number: int) -> str:
        return self._primary_addresses[number]

    def filter_packets(self, commands: str) -> None:  # noqa: ARG002
        raise UnsupportedError("packets are filtered in namespaces only", "run this without an inventory")

    @property
    def _primary_addresses(self) -> list[str]:
        return [self.primary.spec.address, *self.primary.spec.more_addresses]


def require_sources(server: RemoteHost, player: RemoteHost) -> None:
    """A player must be able to send from its prefix, and the server must route that prefix to it."""
    if not player.spec.sources:
        return
    some = str(next(ipaddress.ip_network(player.spec.sources).hosts()))
    if not player.printed(["ip", "route", "get", some]).startswith("local"):
        help_text = f"there: ip route add local {player.spec.sources} dev lo"
        raise LabError(f"{player.name}: it cannot send from {player.spec.sources}", help_text)
    if f"via {player.spec.address} " not in server.printed(["ip", "route", "get", some]):
        help_text = f"there: ip route add {player.spec.sources} via {player.spec.address}"
        raise LabError(f"{server.name}: it does not send to {player.spec.sources} by way of {player.name}", help_text)


def _require_addresses(machine: RemoteHost) -> None:
    """The machine must have the addresses in the inventory."""
    for wanted in (machine.spec.address, *machine.spec.more_addresses):
        if not machine.run("ip", "-oneline", "address", "show", "to", wanted).strip():
            help_text = f"correct the inventory, or there: ip address add {wanted}/24 dev INTERFACE"
            raise LabError(f"{machine.name}: {machine.spec.ssh} has no address {wanted}", help_text)


def _require_rig(server: RemoteHost, players: Sequence[RemoteHost], spec: RigSpec) -> None:
    """The machines must already have the settings that an experiment needs."""
    for asked, what in (
        (spec.queues > 1, "receive queues"),
        (bool(spec.rps_cpus), "RPS"),
        (bool(spec.qdisc), "a queueing discipline"),
        (spec.delay_ms > 0, "a delay"),
        (spec.loss_percent > 0, "packet loss"),
        (spec.path_mtu > 0, "the longest packet of a path"),
        (bool(spec.nftables), "a packet filter"),
    ):
        if asked:
            raise UnsupportedError(f"{what} is set in namespaces only", "run this without an inventory")
    _require_settings(server, spec.sysctl)
    for player in players:
        _require_settings(player, spec.client_sysctl)


def _require_settings(machine: RemoteHost, wanted: Mapping[str, str | int]) -> None:
    for key, value in wanted.items():
        found = machine.read_sysctl(key).split()
        if found != str(value).split():
            help_text = f"there: sysctl -w {key}='{value}'; the lab changes nothing on real machines"
            raise UnsupportedError(f"{machine.name} has {key} = {' '.join(found)}, {value} is asked for", help_text)


@contextlib.contextmanager
def _files_in(session: Path, cache: Path) -> Iterator[None]:
    """Redirects temporary and cached files of the lab to these folders."""
    before, tempfile.tempdir = tempfile.tempdir, str(session)
    cache_before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(cache)
    try:
        yield
    finally:
        tempfile.tempdir = before
        os.environ.pop("XDG_CACHE_HOME")
        if cache_before is not None:
            os.environ["XDG_CACHE_HOME"] = cache_before
