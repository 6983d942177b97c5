"""Finds, configures, starts and stops the servers, each on a port of its own.

All use 127.0.0.1: BIND listens only on addresses that an interface has.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import client
from dns_numbers import AA, SOA
from message import Query, parse
from names import Malformed

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Zone:
    """A zone to serve: its apex in lower-case wire format, its name and its zone file."""

    apex: bytes
    name: str
    file: Path


class ProgramNotFound(RuntimeError):
    """A server that is not installed."""


class Server:
    """A server; each subclass has its program and configuration."""

    name = ""
    programs: tuple[str, ...] = ()
    version_flag = "--version"
    command: tuple[str, ...] = ()  # arguments before the path of the configuration
    config = zone_config = ""  # templates

    def __init__(self, zones: list[Zone], folder: Path) -> None:
        self.zones, self.folder = zones, folder / self.name
        self.address = HOST, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def program(cls) -> str:
        """The path of the server's program; raises `ProgramNotFound`."""
        path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
        for program in cls.programs:
            if found := shutil.which(program, path=path):
                return found
        raise ProgramNotFound(f"{cls.name} not found; {cls.help_text()}")

    @classmethod
    def help_text(cls) -> str:
        return "run interop/install-peers, or put it on PATH"

    @classmethod
    def version(cls) -> str:
        """The first line of its version output."""
        done = subprocess.run([cls.program(), cls.version_flag], capture_output=True, text=True, check=False)
        return next((line for line in (done.stdout + done.stderr).splitlines() if line), "of unknown version")

    def arguments(self) -> list[str]:
        """Writes the configuration and returns the command line."""
        host, port = self.address
        zones = (self.zone_config.format(zone=zone, folder=self.folder) for zone in self.zones)
        path = self.folder / "config"
        path.write_text(self.config.format(host=host, port=port, folder=self.folder) + "".join(zones))
        return [self.program(), *self.command, str(path)]

    def start(self, expected: list[Zone] | None = None) -> None:
        """Starts the server and waits until each zone, or each expected one, answers; raises `RuntimeError` with the log otherwise."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # The server ends with this program, even if that is killed.
        command = [*(("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()), *self.arguments()]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder, start_new_session=True)
        waiting, deadline = list(self.zones if expected is None else expected), time.monotonic() + START_TIMEOUT_S
        while waiting:
            if self.process.poll() is not None or time.monotonic() > deadline:
                names = ", ".join(z.name for z in waiting)
                raise RuntimeError(f"{self.name} does not serve {names}:\n{self.log.read_text(errors='replace')[-4000:]}")
            replies = client.udp(self.address, [Query(z.apex, SOA).wire() for z in waiting], timeout_s=0.3, tries=1)
            waiting = [z for z, reply in zip(waiting, replies) if not serves(reply)]
            if waiting:
                time.sleep(0.05)

    def stop(self) -> None:
        """Stops the server and its child processes, which share its process group."""
        if self.process is None:
            return
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, signal_number)
                self.process.wait(10)
                break
        self.process = None

    @property
    def log(self) -> Path:
        return self.folder / "log"


class Zonda(Server):
    """Zonda: the binary in `ZONDA`, or the newer of the release and debug builds."""

    name, command = "zonda", ("serve", "--config")

    @classmethod
    def program(cls) -> str:
        builds = [ROOT / "target" / kind / "zonda" for kind in ("release", "debug")]
        builds = sorted((b for b in builds if b.exists()), key=lambda b: b.stat().st_mtime, reverse=True)
        if found := os.environ.get("ZONDA") or (str(builds[0]) if builds else None):
            return str(Path(found).resolve())
        raise ProgramNotFound(f"zonda not found; {cls.help_text()}")

    @classmethod
    def help_text(cls) -> str:
        return "run `cargo build -p zonda-server`, or name the binary in ZONDA"

    config = """\
[server]
listen = ["{host}:{port}"]
workers = 1
state-dir = "{folder}"
"""
    zone_config = """\
[[zone]]
name = "{zone.name}"
file = "{zone.file}"
allow-transfer = ["127.0.0.0/8"]
"""


class Nsd(Server):
    name, programs, version_flag, command = "nsd", ("nsd",), "-v", ("-d", "-c")
    config = """\
server:
  ip-address: {host}@{port}
  server-count: 1
  username: ""
  zonesdir: /
  pidfile: {folder}/pid
  xfrdfile: {folder}/xfrd.state
  zonelistfile: {folder}/zones.list
  xfrdir: {folder}
  tcp-query-count: 0
  rrl-ratelimit: 0
  refuse-any: no
  minimal-responses: yes
remote-control:
  control-enable: no
"""
    zone_config = """\
zone:
  name: {zone.name}
  zonefile: {zone.file}
  provide-xfr: 127.0.0.0/8 NOKEY
"""


class Knot(Server):
    name, programs, command = "knot", ("knotd",), ("-c",)
    config = """\
server:
  listen: {host}@{port}
  rundir: {folder}
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
log:
  - target: stdout
    any: warning
database:
  storage: {folder}/db
acl:
  - id: any
    address: 127.0.0.0/8
    action: transfer
template:
  - id: default
    storage: {folder}
    semantic-checks: off
    zonefile-sync: -1
    journal-content: none
    acl: any
zone:
"""
    zone_config = """\
  - domain: {zone.name}
    file: {zone.file}
"""


class Bind(Server):
    name, programs, version_flag, command = "bind", ("named",), "-v", ("-g", "-n", "1", "-c")
    config = """\
options {{
  directory "{folder}";
  listen-on port {port} {{ {host}; }};
  listen-on-v6 {{ none; }};
  pid-file none;
  recursion no;
  notify no;
  dnssec-validation no;
  empty-zones-enable no;
  minimal-responses no-auth;
  zero-no-soa-ttl no;
  allow-transfer {{ any; }};
  max-records-per-type 0;
  check-names primary ignore;
  check-integrity no;
  check-sibling no;
  check-mx ignore;
  check-mx-cname ignore;
  check-srv-cname ignore;
  check-wildcard no;
}};
controls {{ }};
"""
    zone_config = 'zone "{zone.name}" {{ type primary; file "{zone.file}"; }};\n'


SERVERS: dict[str, type[Server]] = {s.name: s for s in (Zonda, Nsd, Knot, Bind)}


def serves(reply: bytes | None) -> bool:
    """Whether this is an authoritative answer, so that the zone is loaded."""
    try:
        message = parse(reply or b"")
    except Malformed:
        return False
    return message.has(AA) and bool(message.answer)


def free_port() -> int:
    """A port that is free for both TCP and UDP on 127.0.0.1."""
    while True:
        with socket.create_server((HOST, 0)) as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            port = int(stream.getsockname()[1])
            try:
                datagrams.bind((HOST, port))
            except OSError:
                continue
            return port
