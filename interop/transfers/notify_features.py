"""NOTIFY: to configured targets, signed, over TLS, and to the name servers of the zone."""

from __future__ import annotations

import errno
import random
from dataclasses import replace

from zonda_lab.servers.config import TlsRemote

from servers import reserve_port
from transfers.cell import Cell, pair, remote
from transfers.relay import Relay
from transfers.server import Failed, Skipped
from transfers.tls_features import CLIENT_NAME, SERVER_NAME, certificates
from transfers.zone_versions import CHANGES, ZONE, ZoneText

NAME_SERVERS = 100  # addresses that are tried


def notify(cell: Cell) -> None:
    """A change must arrive although the refresh interval is an hour."""
    version = ZoneText(1)
    both = pair(cell, version)
    both.start(version)
    both.follow(version, CHANGES[:3])


def notify_over_tls(cell: Cell) -> None:
    """NOTIFY goes to the TLS port of the secondary, whose name is verified; transfers use TCP."""
    files, version = certificates(cell), ZoneText(1)
    both = pair(cell, version, notify=False)
    tls_port = reserve_port()
    zone = both.primary.zone(ZONE).changed(notify=(remote(tls_port, tls=TlsRemote(CLIENT_NAME)),))
    both.primary.config = replace(both.primary.config, certificate=files[SERVER_NAME], zones=(zone,))
    endpoint = replace(both.secondary.config.endpoint, tls_port=tls_port)
    both.secondary.config = replace(both.secondary.config, certificate=files[CLIENT_NAME], endpoint=endpoint)
    both.start(version)
    both.follow(version, CHANGES[:2])


def notify_name_servers(cell: Cell) -> None:
    """NOTIFY goes to the name server in the NS records, which has an address in the zone; no target is configured."""
    version, target = ZoneText(1), name_server(random.Random())
    cell.stack.callback(target.close)
    version.records["@", "NS"] = ["ns1", "ns2"]
    version.records["ns2", "A"] = [target.address[0]]
    both = pair(cell, version, notify=False, change=lambda zone: zone.changed(notify_ns=zone.file is not None))
    target.upstream = both.secondary.address
    both.start(version)
    both.follow(version, CHANGES[:2])


def name_server(numbers: random.Random) -> Relay:
    """An open relay to nowhere yet, on port 53 of an address that no other cell has, nor one of another run at the same time."""
    for _ in range(NAME_SERVERS):
        target = Relay(0, (f"127.77.{numbers.randrange(256)}.{numbers.randrange(1, 255)}", 53))
        try:
            target.open()
            return target
        except PermissionError as error:
            raise Skipped(f"port 53 of {target.address[0]} needs privileges: {error}") from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise Failed(f"port 53 of {NAME_SERVERS} addresses is in use, the last {target.address[0]}")
