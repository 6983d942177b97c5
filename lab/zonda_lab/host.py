"""Where programs of an experiment run (an end of the local rig, a real machine), and the network they make together."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from zonda_lab.process import Program
from zonda_lab.server_config import Endpoint


class Stream(Protocol):
    """A TCP connection: what of a socket is needed here."""

    def sendall(self, data: bytes, /) -> None:
        """Sends all of it."""

    def recv(self, size: int, /) -> bytes:
        """What has come, at most `size` octets; empty at the end."""

    def settimeout(self, seconds: float, /) -> None:
        """How long `recv` waits before it raises TimeoutError."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Host(Protocol):
    """A place to run programs at."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def clock_offset_s(self) -> float:
        """Its monotonic clock minus ours."""

    @property
    def python(self) -> str:
        """Its Python interpreter."""

    @property
    def sources(self) -> str:
        """The prefix whose addresses a client there may send from; raises where there is none."""

    @property
    def lab_cpu_s(self) -> float:
        """CPU time that the lab itself, and what it started there and has ended, has used on that machine."""

    def start(
        self, name: str, argv: Sequence[str | Path], log: Path, cpus: Sequence[int] = (), descriptors: int = 0
    ) -> Program:
        """Starts a program there; what it prints comes into `log` here."""

    def run(self, *argv: str | Path) -> str:
        """Runs a short command there and returns what it prints."""

    def place(self, *paths: Path) -> None:
        """Makes files and folders of ours exist there, under the same paths."""

    def read_sysctl(self, key: str) -> str:
        """A kernel setting as it is there."""

    def udp_socket(self, endpoint: Endpoint) -> socket.socket:
        """A socket to a server, connected, as a client there has it."""

    def tcp_stream(self, endpoint: Endpoint, timeout_s: float) -> Stream:
        """A connection to a server, as a client there has it; raises OSError if there is none in time."""


@dataclass(frozen=True)
class TelemetryTarget:
    """One machine's telemetry."""

    host: Host
    sees: Sequence[Host]  # the hosts on that machine, whose processes it sees
    arguments: list[str] = field(default_factory=list)  # the namespaces whose counters it reads


class Network(Protocol):
    """The hosts of one start."""

    @property
    def server(self) -> Host:
        """Where the server under test runs."""

    @property
    def primary(self) -> Host:
        """Where its primary runs."""

    @property
    def client(self) -> Host:
        """Where single programs of the generator's run."""

    @property
    def players(self) -> Sequence[Host]:
        """Where load is made, each its part."""

    @property
    def notes(self) -> list[str]:
        """What could not be done as asked, for the records."""

    @property
    def server_address(self) -> str:
        """Where the server listens."""

    @property
    def telemetry_targets(self) -> Sequence[TelemetryTarget]:
        """The machines with telemetry: the one that sees the server first."""

    def primary_address(self, number: int) -> str:
        """Address number `number` of a primary."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None: ...


def forget_pages(host: Host, listed: Path, files: Sequence[Path]) -> None:
    """Has the kernel there forget what it holds of those files: the next reader goes to the disk."""
    listed.write_text("".join(f"{path}\n" for path in files))
    host.place(listed)
    each = ("xargs", "--no-run-if-empty", "--delimiter=\\n", f"--arg-file={listed}")
    host.run(*each, "sync")
    host.run(*each, "-I{}", "dd", "if={}", "iflag=nocache", "count=0", "status=none")
