"""Where programs of an experiment run (an end of the local rig, a real machine), and the network they make together."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from zonda_lab.model import Endpoint
from zonda_lab.process import Program


class Host(Protocol):
    """A place to run programs at."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def clock_offset_s(self) -> float:
        """Its monotonic clock minus ours."""

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

    def tcp_socket(self) -> socket.socket:
        """A socket as a client there has it, not yet connected."""


class Network(Protocol):
    """The hosts of one start."""

    @property
    def server(self) -> Host:
        """Where the server under test runs."""

    @property
    def client(self) -> Host:
        """Where its primary runs, and single programs of the generator's."""

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
    def watch(self) -> tuple[Host, list[str]]:
        """Where telemetry runs, and which namespaces it is to watch."""

    def watched(self, host: Host) -> bool:
        """Does telemetry see the processes of that host?"""

    def primary_address(self, number: int) -> str:
        """Address number `number` of a primary."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
