"""Reads what servers serve, and compares it record by record."""

from __future__ import annotations

import struct
from pathlib import Path

import dns.message
import dns.name
import dns.query
import dns.rdatatype
import dns.tsig
import dns.tsigkeyring
from zonda_lab.servers.config import Tsig

import client
import zone_data
from dns_numbers import SOA
from message import Query, Record, parse
from names import Malformed, wire_name
from servers import HOST
from transfers.server import Failed, TransferServer, wait_until

SHOWN = 4
WAIT_S = 25.0
SERVFAIL, REFUSED = 2, 5


def serial(server: TransferServer, zone: str) -> int | None:
    """The serial that a server answers with, None if it does not serve the zone."""
    reply = client.udp(server.address, [Query(wire_name(zone), SOA).wire()], timeout_s=1.0, tries=2)[0]
    try:
        soa = next((record for record in parse(reply or b"").answer if record.rtype == SOA), None)
    except Malformed:
        return None
    return None if soa is None else serial_of(soa)


def rcode(server: TransferServer, zone: str) -> int | None:
    """The RCODE of a SOA query, None without a response."""
    reply = client.udp(server.address, [Query(wire_name(zone), SOA, payload=1232).wire()], timeout_s=1.0, tries=2)[0]
    return None if reply is None else parse(reply).rcode


def serial_of(soa: Record) -> int:
    """RFC 1035 3.3.13: the serial precedes the four intervals."""
    return int(struct.unpack(">I", soa.rdata[-20:-16])[0])


def wait_for_serial(server: TransferServer, zone: str, expected: int, timeout_s: float = WAIT_S) -> None:
    wait_until(
        lambda: serial(server, zone) == expected,
        lambda: f"{server.name} did not get serial {expected} of {zone} (it has {serial(server, zone)})",
        timeout_s,
    )


def contents(server: TransferServer, zone: str, key: Tsig | None = None) -> frozenset[Record]:
    """All records, by AXFR; each must be sent once, between two copies of the SOA (RFC 5936 2.2)."""
    try:
        records = signed_axfr(server, zone, key) if key else client.axfr(server.address, wire_name(zone))
    except (Malformed, OSError, dns.exception.DNSException) as error:
        raise Failed(f"AXFR of {zone} from {server.name}: {error or type(error).__name__}") from error
    if records[0] != records[-1]:
        raise Failed(f"AXFR of {zone} from {server.name}: the first and the last record differ")
    found = frozenset(records)
    if len(found) != len(records) - 1:
        raise Failed(f"AXFR of {zone} from {server.name}: {len(records) - 1 - len(found)} records were sent twice")
    return found


def signed_axfr(server: TransferServer, zone: str, key: Tsig) -> list[Record]:
    """The records of an AXFR with TSIG, which dnspython verifies."""
    keyring = {dns.name.from_text(key.name): dns.tsig.Key(key.name, key.secret, key.algorithm)}
    messages = dns.query.xfr(HOST, zone, port=server.address[1], keyring=keyring, keyname=key.name, relativize=False, timeout=20, lifetime=20)
    records: list[Record] = []
    for message in messages:
        if not message.had_tsig:
            raise Failed(f"AXFR of {zone} from {server.name}: a message has no TSIG (RFC 8945 5.3.1)")
        records += client.transferred(message.wire)
    return records


def expected_contents(file: Path, zone: str) -> frozenset[Record]:
    """The records of a zone file, read by dnspython."""
    return frozenset(zone_data.read(file, zone).records)


def require_same(found: frozenset[Record], expected: frozenset[Record], names: tuple[str, str]) -> None:
    """Raises `Failed` with the records that only one of the two has."""
    if found == expected:
        return
    ours, theirs = names
    parts = [f"{len(found - expected)} records only on {ours}, {len(expected - found)} only on {theirs}"]
    parts += [f"{ours}: {record}" for record in sorted(found - expected)[:SHOWN]]
    parts += [f"{theirs}: {record}" for record in sorted(expected - found)[:SHOWN]]
    raise Failed("; ".join(parts))
