"""TSIG: transfers and NOTIFY signed with each algorithm, wrong keys, and the rollover of a key."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from transfers.cell import Cell, Pair, pair
from transfers.contents import contents, serial
from transfers.server import Failed
from transfers.server_config import Access, Key, Remote
from transfers.zone_versions import CHANGES, ZONE, ZoneText, big

ALGORITHMS = ("hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512")
REFUSED_AFTER_S = 4.0


def tsig(algorithm: str) -> Callable[[Cell], None]:
    """The test of an algorithm."""

    def test(cell: Cell) -> None:
        """A signed AXFR of several messages, then two signed changes; without the key there is no transfer."""
        key, version = Key(f"{algorithm}.key.example.", algorithm), big(ZoneText(1, refresh=2, retry=1), 2000)
        both = pair(cell, version, key, notify=False)
        both.start(version)
        both.follow(version, CHANGES[:2])
        require_all_signed(both)
        require_refused(both, None)
        require_refused(both, replace(key, salt="wrong"))

    return test


def signed_notify(cell: Cell) -> None:
    """A change must arrive by a signed NOTIFY, although the refresh interval is an hour."""
    key, version = Key("transfer.example."), ZoneText(1)
    both = pair(cell, version, key)
    both.start(version)
    both.follow(version, CHANGES[:2])
    require_all_signed(both)


def require_all_signed(both: Pair) -> None:
    transfers = both.relay.transfers(ZONE)
    if not transfers or not all(exchange.signed for exchange in transfers):
        raise Failed(f"of {len(transfers)} transfers, {sum(not exchange.signed for exchange in transfers)} were not signed")


def require_refused(both: Pair, key: Key | None) -> None:
    """The primary must not transfer without a key, or with this one."""
    try:
        contents(both.primary, ZONE, key)
    except Failed:
        return
    raise Failed(f"the primary transferred {'with a wrong secret' if key else 'without TSIG'}")


def wrong_key(cell: Cell) -> None:
    """The secondary has another secret: it gets nothing. Then it is given the right one, by a reload."""
    key, version = Key("transfer.example."), ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version, key, secondary_key=replace(key, salt="wrong"))
    # The secondary may have one secret for a key only.
    zone = both.secondary.server_config.zones[0]
    both.secondary.server_config.zones = [replace(zone, transfer=(Access(),))]
    both.primary.start()
    both.secondary.start([])
    time.sleep(REFUSED_AFTER_S)
    if serial(both.secondary, ZONE) is not None:
        raise Failed("the secondary has the zone, although its key is wrong")
    both.secondary.reconfigure([replace(zone, primaries=(Remote(both.relay.port, key),))])
    both.require_equal(version, timeout_s=60)


def rollover(cell: Cell) -> None:
    """The primary accepts two keys; the secondary changes to the second by a reload; then the primary drops the first."""
    old, new = Key("old.example."), Key("new.example.")
    version = ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version, old, access=(Access(old), Access(new)))
    both.start(version)
    zone = both.secondary.server_config.zones[0]
    both.secondary.reconfigure([replace(zone, primaries=(Remote(both.relay.port, new),), transfer=(Access(new),))])
    zone = both.primary.server_config.zones[0]
    both.primary.reconfigure([replace(zone, notify=tuple(Remote(r.port, new) for r in zone.notify), transfer=(Access(new),))])
    both.key = new
    both.follow(version, CHANGES[:1])
    require_refused(both, old)
