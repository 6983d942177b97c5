"""What a server of a transfer test is configured with, in terms that every server knows; all addresses are 127.0.0.1."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Key:
    """A TSIG key; the secret is derived from its name, so that both sides have the same."""

    name: str
    algorithm: str = "hmac-sha256"
    salt: str = ""  # another salt gives another secret

    @property
    def secret(self) -> str:
        """The secret in base64."""
        return base64.b64encode(hashlib.sha256((self.name + self.salt).encode()).digest()).decode()


@dataclass(frozen=True)
class TlsFiles:
    """The certificate and key of a server or client, and the certificate of their authority."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class TlsRemote:
    """How to connect with TLS or QUIC: without authentication, or by the server's name or public key, or with an own certificate too."""

    name: str | None = None
    client: bool = False
    pin: str | None = None  # the SHA-256 digest of the public key, in base64
    quic: bool = False


@dataclass(frozen=True)
class Remote:
    """Another server: a primary, or one to notify."""

    port: int
    key: Key | None = None
    tls: TlsRemote | None = None


@dataclass(frozen=True)
class Access:
    """Who may do something: any local client, or only with a key, or only over TLS or QUIC, or with a client certificate of this name."""

    key: Key | None = None
    tls: bool | str = False


@dataclass(frozen=True)
class ZoneConfig:
    """A zone: a primary has a `file`, a secondary has `primaries`."""

    name: str
    file: Path | None = None
    primaries: tuple[Remote, ...] = ()
    notify: tuple[Remote, ...] = ()
    transfer: tuple[Access, ...] = (Access(),)
    update: tuple[Access, ...] = ()
    forward_updates: bool = False
    catalog: str | None = None  # "consume" or "produce"
    groups: dict[str, tuple[Remote, ...]] = field(default_factory=dict)  # consumed catalog: primaries of the members of a group, "" for others
    member_of: str | None = None  # the produced catalog that lists this zone
    notify_ns: bool = False  # notify the name servers of the zone, too
    serve_udp_ixfr: bool = False  # ask for IXFR over UDP, if the server can

    @property
    def keys(self) -> list[Key]:
        """All keys that this zone refers to."""
        remotes = [*self.primaries, *self.notify, *(r for group in self.groups.values() for r in group)]
        found = [entry.key for entry in [*remotes, *self.transfer, *self.update]]
        return [key for key in found if key is not None]


@dataclass
class ServerConfig:
    """A whole server."""

    port: int
    zones: list[ZoneConfig]
    tls_port: int | None = None
    quic_port: int | None = None
    tls: TlsFiles | None = None

    @property
    def keys(self) -> list[Key]:
        """Each key once, in order of name."""
        return sorted({key for zone in self.zones for key in zone.keys}, key=lambda key: key.name)
