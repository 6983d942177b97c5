"""AXFR, IXFR, timers and several primaries: each function tests one feature of a cell, and raises `Failed` or `Skipped`."""

from __future__ import annotations

import time

import dns.query
import dns.rdatatype
from zonda_lab.servers.config import Zone, ZonePolicy

from servers import HOST, reserve_port
from transfers.cell import Cell, Pair, config_of, pair, remote, wait_for_transfer
from transfers.contents import SERVFAIL, contents, rcode, require_same, serial, wait_for_serial
from transfers.relay import IXFR, Relay
from transfers.server import Failed, TransferServer, wait_until, write_file
from transfers.zone_versions import CHANGES, FIRST_SERIAL, ZONE, ZoneText, big

# With these timers a secondary notices a change within seconds, and expires seconds after it lost its primary.
SOON = {"refresh": 2, "retry": 1, "expire": 8}
QUIET_S = 1.5
# A secondary that could not reach its primary may wait for its SOA query to time out, 30 s in BIND, and then for RETRY.
AFTER_A_GAP_S = 60.0


def axfr(cell: Cell) -> None:
    """A small zone with records of many types, and one that needs several messages."""
    for number, version in enumerate([ZoneText(FIRST_SERIAL), big(ZoneText(1, name="big.example."))]):
        part = Cell(cell.primary, cell.secondary, cell.folder / str(number), cell.stack)
        both = pair(part, version)
        both.start(version)
        both.require_form("full")


def ixfr(cell: Cell) -> None:
    """Each change of the chain, then several at once; all must be incremental, across the end of the serial space."""
    # BIND 9.18 drops a NOTIFY that comes during a check which then fails: only RETRY helps it.
    version = ZoneText(FIRST_SERIAL, retry=10)
    both = pair(cell, version)
    both.start(version)
    for change in CHANGES:
        both.relay.forget()
        version = both.follow(version, [change])
        both.require_form("incremental")
    version = follow_after_a_gap(both, version)
    check_ixfr_from(both.primary, version, 3)


def follow_after_a_gap(both: Pair, version: ZoneText) -> ZoneText:
    """Three changes while the secondary cannot reach its primary; it must then follow incrementally."""
    both.relay.close()
    for number in range(3):
        version = version.next(lambda v, n=number: v.records.update({(f"gap{n}", "A"): ["192.0.2.7"]}))
        both.publish(version)
        wait_for_serial(both.primary, both.zone, version.serial)
    both.relay.open()
    both.relay.forget()
    version = version.next(lambda v: v.records.pop(("gap0", "A")))
    both.publish(version)
    both.require_equal(version, AFTER_A_GAP_S)
    both.require_form("incremental")
    return version


def check_ixfr_from(server: TransferServer, version: ZoneText, back: int) -> None:
    """dnspython asks for what changed since `back` versions, and since the current one (then the SOA alone, RFC 1995 2)."""
    for serial_held in ((version.serial - back) % (1 << 32), version.serial):
        messages = dns.query.xfr(HOST, version.name, "IXFR", port=server.address[1], serial=serial_held, relativize=False, timeout=20, lifetime=20)
        soas = [rdata.serial for message in messages for rrset in message.answer if rrset.rdtype == dns.rdatatype.SOA for rdata in rrset]
        incremental = serial_held == version.serial or serial_held in soas[1:2]
        if not incremental or soas[0] != version.serial:
            raise Failed(f"IXFR of {version.name} from serial {serial_held}: the SOA serials are {soas}")


def ixfr_over_udp(cell: Cell) -> None:
    """The secondary asks for IXFR over UDP (RFC 1995 2); the response is one datagram or makes it use TCP."""
    version = ZoneText(1)
    both = pair(cell, version, change=lambda zone: zone.changed(udp_ixfr=True))
    both.start(version)
    for change in (CHANGES[0], CHANGES[9], CHANGES[10]):
        both.relay.forget()
        version = both.follow(version, [change])
        if not any(exchange.over_udp and exchange.qtype == IXFR for exchange in both.relay.transfers(ZONE)):
            raise Failed("the secondary did not ask over UDP")


def refresh(cell: Cell) -> None:
    """Without NOTIFY, a change must arrive when the refresh timer of the SOA is due."""
    version = ZoneText(1, **SOON)
    both = pair(cell, version, notify=False)
    both.start(version)
    both.follow(version, CHANGES[:1])


def retransfer(cell: Cell) -> None:
    """The secondary is made to transfer the whole zone although its serial is current."""
    version = ZoneText(1)
    both = pair(cell, version)
    both.start(version)
    both.relay.forget()
    both.secondary.retransfer(ZONE)
    wait_for_transfer(both.relay, ZONE, "full")
    both.require_equal(version)


def expiry(cell: Cell) -> None:
    """Without a primary the zone expires (SERVFAIL); it is served again once the primary is back, even with an older serial."""
    version = ZoneText(10, **SOON)
    both = pair(cell, version, notify=False)
    both.start(version)
    both.relay.close()
    wait_until(lambda: rcode(both.secondary, ZONE) == SERVFAIL, "the zone did not expire", 40)
    both.relay.open()
    both.require_equal(version, timeout_s=60)


def expired_accepts_older_serial(cell: Cell) -> None:
    """An expired zone accepts any serial that its primary has."""
    version = ZoneText(10, **SOON)
    both = pair(cell, version, notify=False)
    both.start(version)
    both.relay.close()
    wait_until(lambda: rcode(both.secondary, ZONE) == SERVFAIL, "the zone did not expire", 40)
    older = ZoneText(5, **SOON)
    restart_primary(cell, both, older)
    both.relay.open()
    both.require_equal(older, timeout_s=60)


def restart_primary(cell: Cell, both: Pair, version: ZoneText) -> None:
    """Starts the primary anew, without its state, with another version of the zone."""
    both.primary.stop()
    write_file(both.primary.zone_file(ZONE), version.text())
    both.primary = cell.server(cell.primary, "primary-again", both.primary.config)
    both.primary.start()


# --- Several primaries


def two_primaries(cell: Cell, first: ZoneText, second: ZoneText) -> tuple[list[TransferServer], list[Relay], TransferServer]:
    """Two primaries with these versions and a secondary of both; the primaries run, the secondary does not."""
    port, primaries, relays = reserve_port(), [], []
    for role, version in (("first", first), ("second", second)):
        primary_port, file = reserve_port(), cell.folder / role / "zone"
        write_file(file, version.text())
        zone = Zone(ZONE, file, ZonePolicy(notify=(remote(port),)))
        primaries.append(cell.server(cell.primary, role, config_of([zone], primary_port)))
        primaries[-1].start()
        relays.append(cell.relay(primary_port))
    zone = Zone(ZONE, policy=ZonePolicy(tuple(remote(relay.port) for relay in relays)))
    return primaries, relays, cell.server(cell.secondary, "secondary", config_of([zone], port))


def failover(cell: Cell) -> None:
    """The first primary is dead at the start, then the second."""
    version = ZoneText(1, refresh=2, retry=1)
    primaries, relays, secondary = two_primaries(cell, version, version)
    relays[0].close()
    secondary.start([])
    wait_for_serial(secondary, ZONE, 1)
    version = version.next(CHANGES[0])
    for primary in primaries:
        primary.publish(ZONE, version.text())
    wait_for_serial(secondary, ZONE, version.serial)
    relays[0].open()
    relays[1].close()
    version = version.next(CHANGES[1])
    for primary in primaries:
        primary.publish(ZONE, version.text())
    wait_for_serial(secondary, ZONE, version.serial)
    require_same(contents(secondary, ZONE), contents(primaries[0], ZONE), ("the secondary", "the primary"))


def highest_serial(cell: Cell) -> None:
    """The primaries have different serials, whichever is first: the highest wins."""
    for number, (first, second) in enumerate([(3, 7), (7, 3)]):
        part = Cell(cell.primary, cell.secondary, cell.folder / str(number), cell.stack)
        _, _, secondary = two_primaries(part, ZoneText(first, refresh=2, retry=1), ZoneText(second, refresh=2, retry=1))
        secondary.start([])
        wait_for_serial(secondary, ZONE, 7)
        time.sleep(2 * QUIET_S)  # longer than the refresh interval
        if (found := serial(secondary, ZONE)) != 7:
            raise Failed(f"the secondary went back to serial {found}")


def older_serial(cell: Cell) -> None:
    """The primary goes back to an older serial: the secondary keeps what it has."""
    version = ZoneText(10, refresh=2, retry=1)
    both = pair(cell, version, notify=False)
    both.start(version)
    before = contents(both.secondary, ZONE)
    restart_primary(cell, both, ZoneText(5))
    time.sleep(2 * QUIET_S)
    require_same(contents(both.secondary, ZONE), before, ("after", "before"))
