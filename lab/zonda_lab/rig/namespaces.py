"""The local test network: a server and a client network namespace, joined by a veth pair or by `link.py`.

A namespace exists only as an open file descriptor of this process, so the kernel removes it with its interfaces and
settings when the process ends. Kernel settings are changed only inside. Without root, the program restarts itself in a
user namespace.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import RigSpec
from zonda_lab.rig import link
from zonda_lab.rig.host import TelemetryTarget
from zonda_lab.rig.process import OWN_TREE, Process, descriptor_limit
from zonda_lab.scratch import scratch_folder
from zonda_lab.servers.config import Endpoint

SERVER, CLIENT = "10.53.0.2", "10.53.0.1"
SOURCES = "10.64.0.0/12"  # source addresses of the client
INSIDE = "ZONDA_LAB_IN_USER_NAMESPACE"
CONGESTION = "net.ipv4.tcp_congestion_control"
ALLOW = "namespaces may use the algorithms in net.ipv4.tcp_allowed_congestion_control of this machine only"
LINK_S = 10.0  # to wait for the devices of `link.py`


class Namespace:
    """A network namespace that exists until `close`."""

    clock_offset_s = 0.0
    python = sys.executable or "python3"
    sources = SOURCES

    def __init__(self, name: str) -> None:
        self.name = name
        self.fd = link.new_namespace()

    @property
    def lab_cpu_s(self) -> float:
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    @property
    def path(self) -> str:
        """Its path for other programs, while this process runs."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def command(self, argv: Sequence[str | Path], cpus: Sequence[int] = ()) -> list[str]:
        """The command line that runs `argv` inside, pinned to those CPUs."""
        pin = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
        return ["nsenter", f"--net={self.path}", *pin, *map(str, argv)]

    def start(
        self, name: str, argv: Sequence[str | Path], log: Path, cpus: Sequence[int] = (), descriptors: int = 0
    ) -> Process:
        if missing := set(cpus) - set(range(os.cpu_count() or 1)):
            raise UnsupportedError(f"this machine has no CPU {min(missing)}")
        limit = descriptor_limit(descriptors) if descriptors else []
        return Process(name, self.command([*limit, *OWN_TREE, *argv], cpus), log)

    def place(self, *paths: Path) -> None:
        """Does nothing: files are local."""

    def udp_socket(self, endpoint: Endpoint) -> socket.socket:
        with self.entered():
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.connect((endpoint.address, endpoint.port))
        return opened

    def tcp_stream(self, endpoint: Endpoint, timeout_s: float) -> socket.socket:
        with self.entered():
            return socket.create_connection((endpoint.address, endpoint.port), timeout_s)

    def run(self, *argv: str | Path) -> str:
        done = subprocess.run(self.command(argv), capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"`{' '.join(map(str, argv))}` failed in the {self.name} namespace: {done.stderr.strip()}")
        return done.stdout

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Runs the block inside; sockets opened there stay in the namespace."""
        return link.inside(self.path)

    def sysctl(self, settings: Mapping[str, str | int]) -> list[str]:
        """Changes kernel settings inside; returns those that are not per namespace on this kernel."""
        elsewhere = []
        with self.entered():
            for key, value in settings.items():
                path = Path("/proc/sys", key.replace(".", "/"))
                if not key.startswith("net.") or not path.exists():
                    elsewhere.append(key)
                    continue
                try:
                    path.write_text(str(value))
                except PermissionError:  # visible inside, but global
                    elsewhere.append(key)
                except OSError as error:
                    raise LabError(f"{key} = {value}: {error.strerror}") from None
        return elsewhere

    def read_sysctl(self, key: str) -> str:
        with self.entered():
            return Path("/proc/sys", key.replace(".", "/")).read_text().strip()

    def close(self) -> None:
        """Closes the namespace."""
        os.close(self.fd)


class NamespaceNetwork:
    """The two namespaces, connected as `spec` says; `notes` lists settings that the kernel does not support."""

    def __init__(self, spec: RigSpec, primaries: int = 0) -> None:
        self.spec, self.notes, self.server_address = spec, list[str](), SERVER
        self._programs = dict[str, Process]()
        self._open = contextlib.ExitStack()
        try:
            self.server, self.client = (self._namespace(name) for name in ("server", "client"))
            self._wire(primaries)
            self._tune()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes both namespaces."""
        self._open.close()

    is_isolated = True

    @property
    def server_cpus(self) -> Sequence[int]:
        return self.spec.server_cpus or range(os.cpu_count() or 1)

    @property
    def load_cpus(self) -> Sequence[int]:
        return self.spec.load_cpus or range(os.cpu_count() or 1)

    @property
    def players(self) -> list[Namespace]:
        return [self.client]

    @property
    def primary(self) -> Namespace:
        return self.client

    @property
    def telemetry_targets(self) -> list[TelemetryTarget]:
        """One sampler, on the client side, covers both namespaces."""
        ends = (self.server, self.client)
        nets = [f"--net={end.name}={end.path}" for end in ends]
        return [TelemetryTarget(self.client, ends, nets, self._programs, self.spec.load_cpus)]

    def primary_address(self, number: int) -> str:
        return f"10.53.{1 + number // 250}.{1 + number % 250}"

    def _namespace(self, name: str) -> Namespace:
        try:
            namespace = Namespace(name)
        except OSError as error:
            allow = "sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0"
            help_text = f"run as root, or allow user namespaces ({allow})"
            raise LabError(f"cannot create a network namespace: {error.strerror}", help_text) from None
        self._open.callback(namespace.close)
        return namespace

    def _wire(self, primaries: int) -> None:
        if self.spec.path_mtu or (self._is_far and not self._has_netem()):
            self._start_link()
        else:
            queues = str(self.spec.queues)
            self.client.run(
                *("ip", "link", "add", "client", "type", "veth"),
                *("peer", "name", "server", "numrxqueues", queues, "numtxqueues", queues, "netns", self.server.path),
            )
        for end, device, address in ((self.server, "server", SERVER), (self.client, "client", CLIENT)):
            end.run("ip", "address", "add", f"{address}/16", "dev", device)
            end.run("ip", "link", "set", device, "up")
            end.run("ip", "link", "set", "lo", "up")
        for number in range(primaries):
            self.client.run("ip", "address", "add", f"{self.primary_address(number)}/16", "dev", "client")
        self.client.run("ip", "route", "add", "local", SOURCES, "dev", "lo")
        self.server.run("ip", "route", "add", SOURCES, "via", CLIENT)

    @property
    def _is_far(self) -> bool:
        return bool(self.spec.delay_ms or self.spec.loss_percent)

    def _has_netem(self) -> bool:
        try:
            self.client.run("tc", "qdisc", "replace", "dev", "lo", "root", "netem")
            self.client.run("tc", "qdisc", "delete", "dev", "lo", "root")
        except LabError:
            return False
        return True

    def _start_link(self) -> None:
        log = self._open.enter_context(scratch_folder()) / "log"
        ends = ("--server", self.server.path, "--client", self.client.path)
        conditions = ("--delay-ms", str(self.spec.delay_ms), "--loss-percent", str(self.spec.loss_percent))
        longest = ("--longest", str(self.spec.path_mtu)) if self.spec.path_mtu else ()
        argv = [self.client.python, link.__file__, *ends, *conditions, *longest]
        program = self._open.enter_context(self.client.start("link", argv, log, self.spec.load_cpus))
        why = "only it drops long packets" if self.spec.path_mtu else "this kernel has no netem"
        deadline = time.monotonic() + LINK_S
        while "ready" not in log.read_text():
            if not program.alive or time.monotonic() > deadline:
                what = f"the program that delays and loses packets cannot start ({why}): {program.tail()}"
                raise UnsupportedError(what, "it needs /dev/net/tun: modprobe tun")
            time.sleep(0.01)
        self._programs["link"] = program
        self.notes.append(f"packets are delayed and lost by a program of the lab: {why}")
        if self.spec.queues > 1:
            self.notes.append(f"one receive queue instead of {self.spec.queues}: that program has no more")

    def _tune(self) -> None:
        for end, settings in ((self.server, self.spec.sysctl), (self.client, self.spec.client_sysctl)):
            elsewhere = end.sysctl(settings)
            if CONGESTION in elsewhere or (elsewhere and len(elsewhere) == len(settings)):
                help_text = ALLOW if CONGESTION in elsewhere else ""
                raise UnsupportedError(f"not per namespace on this kernel: {', '.join(elsewhere)}", help_text)
            self.notes += [f"not set, because it is not per namespace on this kernel: {key}" for key in elsewhere]
        if self.spec.nftables:
            self.filter_packets(self.spec.nftables)
        if self.spec.qdisc:
            self._traffic_control(self.server, "server", self.spec.qdisc)
        if self._is_far and not self._programs:
            loss = f"loss {self.spec.loss_percent}% limit 1000000"
            self._traffic_control(self.client, "client", f"netem delay {self.spec.delay_ms}ms {loss}")
            if self.spec.loss_percent:
                self._traffic_control(self.server, "server", f"netem {loss}")
        if self.spec.rps_cpus:
            self._steer()

    def filter_packets(self, commands: str) -> None:
        if shutil.which("nft") is None:
            raise UnsupportedError("no program nft to filter packets", "install nftables")
        try:
            self.server.run("nft", commands)
        except LabError as error:
            if "not supported" in error.what:  # the operation, or the protocol of its socket
                raise UnsupportedError(f"this kernel has no nf_tables: {error.what}") from None
            raise

    def _traffic_control(self, end: Namespace, device: str, discipline: str) -> None:
        try:
            end.run("tc", "qdisc", "replace", "dev", device, "root", *discipline.split())
        except LabError as error:
            what = discipline.split(maxsplit=1)[0]
            raise UnsupportedError(f"this kernel does not support qdisc {what}: {error}") from None

    def _steer(self) -> None:
        """Sets RPS, which replaces the RSS of a network card; sysfs shows the namespace in which it was mounted."""
        mask = f"{sum(1 << cpu for cpu in self.spec.rps_cpus):x}"
        each = f"for q in /sys/class/net/server/queues/rx-*; do echo {mask} > $q/rps_cpus; done"
        try:
            self.server.run("unshare", "--mount", "sh", "-ec", f"mount -t sysfs rig /sys && {each}")
        except LabError as error:
            raise UnsupportedError(f"cannot set RPS without root: {error}") from None


def enter_user_namespace() -> None:
    """Without root, restarts this program as root of a new user namespace; returns if that is not needed."""
    if os.geteuid() == 0 or INSIDE in os.environ:
        return
    os.environ[INSIDE] = "1"
    wrapped = ["unshare", "--user", "--map-root-user", "--net", "--", sys.executable, "-m", "zonda_lab", *sys.argv[1:]]
    probe = subprocess.run([*wrapped[:5], "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        help_text = "run as root, or allow user namespaces (kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu)"
        raise LabError(f"not root, and no user namespace available: {probe.stderr.strip()}", help_text)
    os.execvp(wrapped[0], wrapped)
