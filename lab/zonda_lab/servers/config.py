"""The server-independent configuration, which each adapter translates into its own format."""

import functools
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
    """A TSIG key; the secret is base64."""

    name: str
    algorithm: str
    secret: str


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for the host `name`."""

    certificate: Path
    key: Path
    name: str


@dataclass(frozen=True)
class Primary:
    """The primary of a zone."""

    endpoint: Endpoint
    tls: Certificate | None = None

    @property
    def port(self) -> int:
        """The port of transfers."""
        return self.endpoint.tls_port if self.tls else self.endpoint.port


@dataclass(frozen=True)
class Zone:
    """A zone by absolute name, loaded from a file or from a primary."""

    name: str
    file: Path | None = None
    primary: Primary | None = None


@dataclass(frozen=True)
class ServerConfig:
    """The configuration of one server."""

    directory: Path
    endpoint: Endpoint
    zones: tuple[Zone, ...]
    workers: int = 1
    cpus: tuple[int, ...] = ()
    tcp_clients: int = 1000
    tcp_idle_s: int = 10
    certificate: Certificate | None = None
    tsig: Tsig | None = None
    more_addresses: tuple[str, ...] = ()
    notify: tuple[Endpoint, ...] = ()
    changes_per_s: float = 0.0  # new versions of zones, by the null primary
    parallel_transfers: int = 100
    updates: bool = False
    tuned: bool = True  # else only what the experiment needs, and the server's defaults
    options: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses the server listens on."""
        return (self.endpoint.address, *self.more_addresses)

    @functools.cached_property  # each of many zones may look up its own
    def primaries(self) -> tuple[Primary, ...]:
        """The distinct primaries of all zones."""
        return tuple(dict.fromkeys(zone.primary for zone in self.zones if zone.primary))

    @property
    def authority(self) -> Certificate | None:
        """The CA certificate of the primaries, if they use TLS."""
        return next((primary.tls for primary in self.primaries if primary.tls), None)

    @property
    def credentials(self) -> list[Path]:
        """The certificate and key files that the server reads."""
        read = [found for found in (self.certificate, self.authority) if found]
        return [path for found in read for path in (found.certificate, found.key)]
