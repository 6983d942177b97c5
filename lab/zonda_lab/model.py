"""What every server has in common: the abstract configuration that each adapter renders in its own language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Endpoint:
    """Where a server listens: plain DNS on `port`, TLS (if any) on `tls_port`."""

    address: str
    port: int = 53
    tls_port: int = 853


@dataclass(frozen=True)
class Zone:
    """A zone by name (absolute, with its final dot); no file means that it comes from the primary."""

    name: str
    file: Path | None = None


@dataclass(frozen=True)
class Tsig:
    """A transaction key: the secret is base64."""

    name: str
    algorithm: str
    secret: str


@dataclass(frozen=True)
class Certificate:
    """A certificate that is its own authority, for the host `name`."""

    certificate: Path
    key: Path
    name: str


@dataclass(frozen=True)
class Primary:
    """Where a secondary gets its zones from."""

    endpoint: Endpoint
    tls: Certificate | None = None


@dataclass(frozen=True)
class Setup:
    """One server, completely: an adapter turns this into files and a command line."""

    directory: Path
    endpoint: Endpoint
    zones: tuple[Zone, ...]
    workers: int = 1
    tcp_clients: int = 1000
    tcp_idle_s: int = 10
    certificate: Certificate | None = None
    tsig: Tsig | None = None
    primary: Primary | None = None
    notify: tuple[Endpoint, ...] = ()
    parallel_transfers: int = 100
    options: tuple[str, ...] = ()
