"""One cell of the table: Zonda and one build of another server, one direction, one feature."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from zonda_lab.servers.config import Access, Certificate, Endpoint, Remote, ServerConfig, TlsRemote, Tsig, Zone, ZonePolicy

from servers import HOST, reserve_port
from transfers.contents import WAIT_S, contents, expected_contents, require_same, wait_for_serial
from transfers.relay import Relay
from transfers.server import Build, Failed, TransferServer, wait_until, write_file
from transfers.zone_versions import ZoneText

remote = partial(Remote, HOST)


def config_of(zones: Iterable[Zone], port: int, certificate: Certificate | None = None, tls_port: int = 0, quic_port: int = 0) -> ServerConfig:
    """The configuration of a server; `Cell.server` adds its folder and options."""
    return ServerConfig(Path(), Endpoint(HOST, port, tls_port, quic_port), tuple(zones), certificate=certificate, tuned=False, keeps_zones=True)


@dataclass
class Cell:
    """The two builds of a cell, and what it has started."""

    primary: Build
    secondary: Build
    folder: Path
    stack: ExitStack

    def server(self, build: Build, role: str, config: ServerConfig) -> TransferServer:
        """A server that is stopped at the end of the cell, not yet started."""
        folder = self.folder / role
        folder.mkdir(parents=True, exist_ok=True)
        server = build.kind(build, folder, replace(config, directory=folder, control_port=reserve_port(), options=build.kind.options))
        self.stack.callback(server.stop)
        return server

    def relay(self, upstream: int) -> Relay:
        """An open relay to a port."""
        relay = Relay(upstream)
        self.stack.callback(relay.close)
        relay.open()
        return relay


@dataclass
class Pair:
    """A primary and a secondary of one zone, with a relay between them."""

    primary: TransferServer
    secondary: TransferServer
    relay: Relay
    zone: str
    key: Tsig | None = None  # that transfers need

    def start(self, version: ZoneText) -> None:
        """Starts both, and waits until the secondary has the zone."""
        self.primary.start()
        self.secondary.start([])
        self.require_equal(version)

    def publish(self, version: ZoneText) -> None:
        self.primary.publish(self.zone, version.text())

    def follow(self, version: ZoneText, changes: Iterable[Callable[[ZoneText], None]]) -> ZoneText:
        """Publishes the changes one by one, each of which must arrive; returns the last version."""
        for change in changes:
            version = version.next(change)
            self.publish(version)
            self.require_equal(version)
        return version

    def require_equal(self, version: ZoneText, timeout_s: float = WAIT_S) -> None:
        """Waits until the secondary has this version; then the primary, the secondary and the zone file must have the same records."""
        wait_for_serial(self.primary, self.zone, version.serial, timeout_s)
        wait_for_serial(self.secondary, self.zone, version.serial, timeout_s)
        file = self.primary.folder / "expected"
        write_file(file, version.text())
        at_primary, at_secondary = contents(self.primary, self.zone, self.key), contents(self.secondary, self.zone, self.key)
        require_same(at_primary, expected_contents(file, self.zone), ("the primary", "the zone file"))
        require_same(at_secondary, at_primary, ("the secondary", "the primary"))

    def require_form(self, form: str) -> None:
        """The newest transfer must have been of this form; then empties the record."""
        found = [exchange.form for exchange in self.relay.transfers(self.zone)]
        if form not in found[-1:]:
            raise Failed(f"expected a transfer of the form {form!r}, recorded: {', '.join(found) or 'none'}")
        self.relay.forget()


def pair(
    cell: Cell,
    version: ZoneText,
    key: Tsig | None = None,
    secondary_key: Tsig | None = None,
    tls: Certificate | None = None,
    client_tls: Certificate | None = None,
    tls_remote: TlsRemote | None = None,
    access: tuple[Access, ...] = (),
    inspection: Tsig | None = None,
    change: Callable[[Zone], Zone] = lambda zone: zone,
    notify: bool = True,
) -> Pair:
    """A primary with a version of the zone, and a secondary that transfers through a relay; neither is started.

    With a key, the primary requires it, and NOTIFY is signed with it. `secondary_key` is what the secondary has instead.
    `inspection` is a key with which the test itself transfers. `change` edits the configuration of both zones.
    """
    ports = [reserve_port() for _ in range(2)]
    quic = tls_remote is not None and tls_remote.quic
    secret_port = reserve_port() if tls is not None else 0
    tls_port, quic_port = (0, secret_port) if quic else (secret_port, 0)
    # QUIC has datagrams of many kinds, which the relay does not forward: it stays beside, and nothing may pass it.
    relay = cell.relay(tls_port or ports[0])
    primaries = (remote(quic_port or relay.port, secondary_key or key, tls_remote),)
    file = cell.folder / "primary" / "zone"
    write_file(file, version.text())
    allowed = access or (Access(key),)
    at_primary = Zone(version.name, file, ZonePolicy(notify=(remote(ports[1], key),) if notify else (), transfer=allowed))
    at_secondary = Zone(version.name, policy=ZonePolicy(primaries, transfer=(Access(inspection or key),)))
    primary = cell.server(cell.primary, "primary", config_of([change(at_primary)], ports[0], tls, tls_port, quic_port))
    secondary = cell.server(cell.secondary, "secondary", config_of([change(at_secondary)], ports[1], client_tls))
    return Pair(primary, secondary, relay, version.name, inspection or key)


def wait_for_transfer(relay: Relay, zone: str, form: str) -> None:
    """Waits until a transfer of this form has passed."""
    wait_until(
        lambda: any(exchange.form == form for exchange in relay.transfers(zone)),
        lambda: f"no transfer of {zone} of the form {form!r}; recorded: {[exchange.form for exchange in relay.transfers(zone)]}",
        WAIT_S,
    )
