"""Finds, configures, starts and stops the servers, each on a port of its own; the adapters are those of the lab.

All use 127.0.0.1: BIND listens only on addresses that an interface has.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.servers import ADAPTERS
from zonda_lab.servers.config import Endpoint, ServerConfig
from zonda_lab.servers.config import Zone as ConfiguredZone

import client
from dns_numbers import AA, SOA
from message import Query, parse
from names import Malformed

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
# Below the ports of clients (net.ipv4.ip_local_port_range), so that no client takes one before its server does.
PORTS = range(10_000, 32_000)
MOST_WORKERS = 16


@dataclass(frozen=True)
class Zone:
    """A zone to serve: its apex in lower-case wire format, its name and its zone file."""

    apex: bytes
    name: str
    file: Path


class ProgramNotFound(RuntimeError):
    """A server that is not installed."""


class Server:
    """A server; each subclass has the name of its adapter and lines that the adapter adds to its configuration."""

    name = ""
    options: tuple[str, ...] = ()

    def __init__(self, zones: list[Zone], folder: Path) -> None:
        self.zones, self.folder = zones, folder / self.name
        self.address = HOST, reserve_port()
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def program(cls) -> str:
        """The path of the server's program; raises `ProgramNotFound`."""
        try:
            return str(ADAPTERS[cls.name].find())
        except LabError:
            raise ProgramNotFound(f"{cls.name} not found; run interop/install-peers, or put it on PATH") from None

    @classmethod
    def version(cls) -> str:
        return ADAPTERS[cls.name].installed(path=Path(cls.program())).version

    def arguments(self) -> list[str]:
        """Writes the configuration and returns the command line."""
        zones = tuple(ConfiguredZone(zone.name, zone.file) for zone in self.zones)
        config = ServerConfig(self.folder, Endpoint(*self.address), zones, options=self.options)
        ADAPTERS[self.name].prepare(config)
        return [str(word) for word in ADAPTERS[self.name].command(Path(self.program()), config)]

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

    name = "zonda"

    @classmethod
    def program(cls) -> str:
        builds = [ROOT / "target" / kind / "zonda" for kind in ("release", "debug")]
        builds = sorted((b for b in builds if b.exists()), key=lambda b: b.stat().st_mtime, reverse=True)
        if found := os.environ.get("ZONDA") or (str(builds[0]) if builds else None):
            return str(Path(found).resolve())
        raise ProgramNotFound("zonda not found; run `cargo build -p zonda-server`, or name the binary in ZONDA")


class Nsd(Server):
    name, options = "nsd", ("minimal-responses: yes",)


class Knot(Server):
    name = "knot"


class Bind(Server):
    name = "bind"
    options = (
        "empty-zones-enable no",
        "minimal-responses no-auth",
        "zero-no-soa-ttl no",
        "max-records-per-type 0",
        "check-integrity no",
        "check-sibling no",
        "check-wildcard no",
        *(f"check-{check} ignore" for check in ("mx", "mx-cname", "srv-cname")),
    )


SERVERS: dict[str, type[Server]] = {s.name: s for s in (Zonda, Nsd, Knot, Bind)}


def serves(reply: bytes | None) -> bool:
    """Whether this is an authoritative answer, so that the zone is loaded."""
    try:
        message = parse(reply or b"")
    except Malformed:
        return False
    return message.has(AA) and bool(message.answer)


def _own_ports() -> Iterator[int]:
    """The ports of this process in a random order, for ever; parallel workers of pytest share none, up to `MOST_WORKERS`."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = [port for port in PORTS if port % MOST_WORKERS == worker % MOST_WORKERS]
    return itertools.cycle(random.Random().sample(ports, len(ports)))


_ports = _own_ports()
_ports_lock = threading.Lock()


def reserve_port() -> int:
    """A port that is free for TCP and UDP on 127.0.0.1, and that no other call returns soon."""
    with _ports_lock:
        for port in _ports:
            with socket.socket() as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, suppress(OSError):
                stream.bind((HOST, port))
                datagrams.bind((HOST, port))
                return port
    raise AssertionError("the ports never end")
