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

    @property
    def plain(self) -> str:
        """`address@port`, as NSD and Knot write it."""
        return f"{self.address}@{self.port}"


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
    """Where a secondary gets zones from."""

    endpoint: Endpoint
    tls: Certificate | None = None


@dataclass(frozen=True)
class Zone:
    """A zone by name (absolute, with its final dot): from a file, or from a primary."""

    name: str
    file: Path | None = None
    primary: Primary | None = None


@dataclass(frozen=True)
class ServerConfig:
    """One server, completely: an adapter turns this into files and a command line."""

    directory: Path
    endpoint: Endpoint
    zones: tuple[Zone, ...]
    workers: int = 1
    tcp_clients: int = 1000
    tcp_idle_s: int = 10
    certificate: Certificate | None = None
    tsig: Tsig | None = None
    more_addresses: tuple[str, ...] = ()
    notify: tuple[Endpoint, ...] = ()
    parallel_transfers: int = 100
    updates: bool = False
    options: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address that the server listens on."""
        return (self.endpoint.address, *self.more_addresses)

    @property
    def primaries(self) -> tuple[Primary, ...]:
        """The primaries of all zones, each once."""
        return tuple(dict.fromkeys(zone.primary for zone in self.zones if zone.primary))

    @property
    def authority(self) -> Certificate | None:
        """Who vouches for the primaries, if transfers in are over TLS."""
        return next((primary.tls for primary in self.primaries if primary.tls), None)
