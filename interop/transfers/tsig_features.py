"""TSIG: transfers and NOTIFY signed with each algorithm, wrong keys, and the rollover of a key."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from zonda_lab.servers.config import Access, Tsig
from zonda_lab.servers.credentials import tsig_key

from transfers.cell import Cell, Pair, pair, remote
from transfers.contents import contents, serial
from transfers.server import Failed
from transfers.zone_versions import CHANGES, ZONE, ZoneText, big

ALGORITHMS = ("hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512")
REFUSED_AFTER_S = 4.0


def tsig(algorithm: str) -> Callable[[Cell], None]:
    """The test of an algorithm."""

    def test(cell: Cell) -> None:
        """A signed AXFR of several messages, then two signed changes; without the key there is no transfer."""
        key, version = tsig_key(f"{algorithm}.key.example.", algorithm), big(ZoneText(1, refresh=2, retry=1), 2000)
        both = pair(cell, version, key, notify=False)
        both.start(version)
        both.follow(version, CHANGES[:2])
        require_all_signed(both)
        require_refused(both, None)
        require_refused(both, other_secret(key))

    return test


def signed_notify(cell: Cell) -> None:
    """A change must arrive by a signed NOTIFY, although the refresh interval is an hour."""
    key, version = tsig_key("transfer.example."), ZoneText(1)
    both = pair(cell, version, key)
    both.start(version)
    both.follow(version, CHANGES[:2])
    require_all_signed(both)


def require_all_signed(both: Pair) -> None:
    transfers = both.relay.transfers(ZONE)
    if not transfers or not all(exchange.signed for exchange in transfers):
        raise Failed(f"of {len(transfers)} transfers, {sum(not exchange.signed for exchange in transfers)} were not signed")


def other_secret(key: Tsig) -> Tsig:
    return tsig_key(key.name, key.algorithm, salt="wrong")


def require_refused(both: Pair, key: Tsig | None) -> None:
    """The primary must not transfer without a key, or with this one."""
    try:
        contents(both.primary, ZONE, key)
    except Failed:
        return
    raise Failed(f"the primary transferred {'with a wrong secret' if key else 'without TSIG'}")


def wrong_key(cell: Cell) -> None:
    """The secondary has another secret: it gets nothing. Then it is given the right one, by a reload."""
    key, version = tsig_key("transfer.example."), ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version, key, secondary_key=other_secret(key))
    # The secondary may have one secret for a key only.
    zone = both.secondary.zone(ZONE)
    both.secondary.config = replace(both.secondary.config, zones=(zone.changed(transfer=(Access(),)),))
    both.primary.start()
    both.secondary.start([])
    time.sleep(REFUSED_AFTER_S)
    if serial(both.secondary, ZONE) is not None:
        raise Failed("the secondary has the zone, although its key is wrong")
    both.secondary.reconfigure(zone.changed(primaries=(remote(both.relay.port, key),)))
    both.require_equal(version, timeout_s=60)


def rollover(cell: Cell) -> None:
    """The primary accepts two keys; the secondary changes to the second by a reload; then the primary drops the first."""
    old, new = tsig_key("old.example."), tsig_key("new.example.")
    version = ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version, old, access=(Access(old), Access(new)))
    both.start(version)
    secondary, primary = both.secondary.zone(ZONE), both.primary.zone(ZONE)
    both.secondary.reconfigure(secondary.changed(primaries=(remote(both.relay.port, new),), transfer=(Access(new),)))
    notified = tuple(remote(other.port, new) for other in primary.policy.notify)
    both.primary.reconfigure(primary.changed(notify=notified, transfer=(Access(new),)))
    both.key = new
    both.follow(version, CHANGES[:1])
    require_refused(both, old)
