"""Interfaces: hosts where programs run (a network namespace or a remote machine), and the network of one start."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from zonda_lab.rig.process import Program
from zonda_lab.servers.config import Endpoint


class Host(Protocol):
    """A place to run programs."""

    name: str  # in messages
    python: str  # its interpreter

    @property
    def clock_offset_s(self) -> float:
        """Its monotonic clock minus the lab's."""

    @property
    def sources(self) -> str:
        """The prefix of source addresses for clients there; raises if there is none."""

    @property
    def lab_cpu_s(self) -> float:
        """CPU time used on that machine by the lab itself and by its programs that have ended."""

    def start(
        self, name: str, argv: Sequence[str | Path], log: Path, cpus: Sequence[int] = (), descriptors: int = 0
    ) -> Program:
        """Starts a program there; its output is written to the local file `log`."""

    def run(self, *argv: str | Path) -> str:
        """Runs a short command there and returns what it prints."""

    def place(self, *paths: Path) -> None:
        """Copies local files and folders there, to the same paths."""

    def read_sysctl(self, key: str) -> str:
        """Reads a kernel setting there."""

    def udp_socket(self, endpoint: Endpoint) -> socket.socket:
        """A connected UDP socket to a server, as seen from there."""

    def tcp_stream(self, endpoint: Endpoint, timeout_s: float) -> socket.socket:
        """A TCP connection to a server, as seen from there; raises OSError on failure or timeout."""


@dataclass(frozen=True)
class TelemetryTarget:
    """A machine to sample."""

    host: Host
    hosts: Sequence[Host]  # the hosts on that machine
    arguments: list[str] = field(default_factory=list)  # of the sampler: network namespaces
    programs: Mapping[str, Program] = field(default_factory=dict)  # of the network itself, by label
    cpus: Sequence[int] = ()  # of the sampler; none: any


class Network(Protocol):
    """The hosts of one start."""

    notes: list[str]  # settings that could not be applied, for the records
    is_isolated: bool  # whether no packets but those of the experiment reach its hosts
    server_address: str  # of the server under test

    @property
    def server(self) -> Host:
        """Where the server under test runs."""

    @property
    def server_cpus(self) -> Sequence[int]:
        """The CPUs of the server under test."""

    @property
    def load_cpus(self) -> Sequence[int]:
        """The CPUs of the load generator on the server's machine; none if it runs elsewhere."""

    @property
    def primary(self) -> Host:
        """Where the primary runs."""

    @property
    def client(self) -> Host:
        """Where single commands of the load generator run."""

    @property
    def players(self) -> Sequence[Host]:
        """The hosts that share the load."""

    @property
    def telemetry_targets(self) -> Sequence[TelemetryTarget]:
        """The machines to sample; the server's machine is first."""

    def primary_address(self, number: int) -> str:
        """The n-th address of the primary."""

    def filter_packets(self, commands: str) -> None:
        """Runs commands of nft(8) on the server's side; raises UnsupportedError if that is not possible."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None: ...


def drop_page_cache(host: Host, listed: Path, files: Sequence[Path]) -> None:
    """Drops files from the page cache of the host."""
    listed.write_text("".join(f"{path}\n" for path in files))
    host.place(listed)
    each = ("xargs", "--no-run-if-empty", "--delimiter=\\n", f"--arg-file={listed}")
    host.run(*each, "sync")
    host.run(*each, "-I{}", "dd", "if={}", "iflag=nocache", "count=0", "status=none")
