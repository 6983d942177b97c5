"""The server-independent configuration, which each adapter translates into its own format."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Endpoint:
    """Where a server listens: plain DNS on `port`; with a certificate also TLS and QUIC, unless the port is 0."""

    address: str
    port: int = 53
    tls_port: int = 853
    quic_port: int = 0

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
    """A certificate for the host `name`, and that of its authority unless it is self-signed."""

    certificate: Path
    key: Path
    name: str
    authority: Path | None = None


@dataclass(frozen=True)
class TlsRemote:
    """How to connect with TLS or QUIC: without authentication, or by the server's name or public key."""

    name: str = ""
    authority: Path | None = None  # that must have issued the server's certificate; default: the own authority
    client: bool = False  # whether to show the own certificate
    pin: str = ""  # the SHA-256 digest of the server's public key, in base64
    quic: bool = False


@dataclass(frozen=True)
class Remote:
    """Another server: a primary, or one to notify."""

    address: str
    port: int = 53
    key: Tsig | None = None
    tls: TlsRemote | None = None

    @property
    def plain(self) -> str:
        """`address@port`, as NSD and Knot write it."""
        return f"{self.address}@{self.port}"


@dataclass(frozen=True)
class Access:
    """Who may do something: anyone, or only with a key, over TLS or QUIC, or with a client certificate of a name."""

    key: Tsig | None = None
    tls: bool | str = False


@dataclass(frozen=True)
class ZonePolicy:
    """What many zones have in common: where they come from, and who may do what with them."""

    primaries: tuple[Remote, ...] = ()
    notify: tuple[Remote, ...] = ()
    transfer: tuple[Access, ...] = (Access(),)
    notified_by: tuple[Access, ...] = ()  # who may send NOTIFY; default: the primaries
    update: tuple[Access, ...] = ()
    forward_updates: bool = False
    catalog: Literal["", "consume", "produce"] = ""
    # Of a consumed catalog: the primaries of the members of each group, "" for those of none.
    groups: Mapping[str, tuple[Remote, ...]] = field(default_factory=dict, hash=False)
    member_of: str = ""  # the produced catalog that lists the zone
    notify_ns: bool = False  # notify the name servers of the zone, too
    udp_ixfr: bool = False  # ask for IXFR over UDP, if the server can

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """All other servers."""
        return (*self.primaries, *self.notify, *(remote for group in self.groups.values() for remote in group))

    @property
    def notifiers(self) -> tuple[Access, ...]:
        """Who may send NOTIFY, for servers that have no default."""
        return self.notified_by or tuple(dict.fromkeys(Access(remote.key) for remote in self.primaries))

    @property
    def keys(self) -> set[Tsig]:
        """All keys."""
        entries: tuple[Remote | Access, ...] = (*self.remotes, *self.transfer, *self.notified_by, *self.update)
        return {entry.key for entry in entries if entry.key is not None}


@dataclass(frozen=True)
class Zone:
    """A zone by absolute name, loaded from a file or from the primaries of its policy."""

    name: str
    file: Path | None = None
    policy: ZonePolicy = ZonePolicy()

    def changed(self, **policy: Any) -> "Zone":
        """The zone with a change of its policy."""
        return replace(self, policy=replace(self.policy, **policy))


def with_policy(zones: Iterable[Zone], **change: Any) -> tuple[Zone, ...]:
    """The zones with a change of their policies."""
    found = list(zones)
    changed = {policy: replace(policy, **change) for policy in {zone.policy for zone in found}}
    return tuple(Zone(zone.name, zone.file, changed[zone.policy]) for zone in found)


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
    more_addresses: tuple[str, ...] = ()
    changes_per_s: float = 0.0  # new versions of zones, by the null primary
    parallel_transfers: int = 100
    tuned: bool = True  # else only what the experiment needs, and the server's defaults
    keeps_zones: bool = False  # secondaries store zones for a restart, and all servers old versions for IXFR
    control_port: int = 0  # of the control channel, which is a socket in `directory` for servers that can; 0: none
    options: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses the server listens on."""
        return (self.endpoint.address, *self.more_addresses)

    @functools.cached_property  # each of many zones may look up its own
    def policies(self) -> tuple[ZonePolicy, ...]:
        """The distinct policies of all zones."""
        return tuple(dict.fromkeys(zone.policy for zone in self.zones))

    @functools.cached_property
    def primaries(self) -> tuple[Remote, ...]:
        """The distinct primaries of all zones."""
        return tuple(dict.fromkeys(remote for policy in self.policies for remote in policy.primaries))

    @property
    def notify(self) -> tuple[Remote, ...]:
        """The distinct servers that are notified."""
        return tuple(dict.fromkeys(remote for policy in self.policies for remote in policy.notify))

    @property
    def keys(self) -> list[Tsig]:
        """Each TSIG key once, in the order of their names."""
        return sorted({key for policy in self.policies for key in policy.keys}, key=lambda key: key.name)

    @property
    def tsig(self) -> Tsig | None:
        """The key of a server that has at most one."""
        return next(iter(self.keys), None)

    @property
    def tls_remotes(self) -> list[TlsRemote]:
        """The ways to connect to other servers, without those that differ in the transport only."""
        remotes = (remote for policy in self.policies for remote in policy.remotes)
        return list(dict.fromkeys(replace(remote.tls, quic=False) for remote in remotes if remote.tls))

    @property
    def client_names(self) -> list[str]:
        """The names in certificates of clients that may transfer zones."""
        entries = (entry for policy in self.policies for entry in policy.transfer)
        return list(dict.fromkeys(entry.tls for entry in entries if isinstance(entry.tls, str)))

    @property
    def authority(self) -> Path | None:
        """The certificate of the authority that others are verified with."""
        own = self.certificate.authority if self.certificate else None
        return own or next((remote.authority for remote in self.tls_remotes if remote.authority), None)

    @property
    def credentials(self) -> list[Path]:
        """The certificate and key files that the server reads."""
        own = (self.certificate.certificate, self.certificate.key) if self.certificate else ()
        return [*own, *([self.authority] if self.authority else [])]
