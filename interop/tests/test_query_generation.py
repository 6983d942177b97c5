"""Queries cover a whole zone, are deterministic, and match logs and captures."""

from __future__ import annotations

import lzma
import struct
from collections.abc import Callable
from pathlib import Path

import dpkt
import pytest

import malformed_queries
import query_generation
from dns_numbers import DS, NS, SOA, A
from message import Query, parse
from names import Malformed, labels, wire_name
from zone_data import ZoneData

Shipped = Callable[[str, str], ZoneData]


def test_every_name_and_type_of_a_zone_is_queried(shipped: Shipped) -> None:
    zone = shipped("plain.example.", "oddities.zone")
    asked = {(q.name.lower(), q.qtype) for q in query_generation.queries_for_zone(zone)}
    names = query_generation.representative_names(zone)
    assert {(name, rtype) for name in names for rtype in zone.owners.get(name, ())} <= asked
    assert all(any(c in b"0123456789" for c in labels(name)[0]) for name in zone.names - set(names)), "omits only names that differ in a number"
    for owner in ("plain.example.", "wild.plain.example.", "inzone.plain.example.", "ent.plain.example."):
        for name in ("nx." + owner, "*." + owner, owner):
            assert {(wire_name(name), t) for t in (A, NS, DS)} <= asked, name


def test_queries_are_well_formed_and_deterministic(shipped: Shipped) -> None:
    zone = shipped("x.", "deep.zone")
    first, second = query_generation.queries_for_zone(zone), query_generation.queries_for_zone(zone)
    assert first == second and query_generation.sample(first, 0.1) == query_generation.sample(second, 0.1)
    assert max(len(q.name) for q in first) == 255
    for query in first[::50]:
        parse(query.wire())


def test_letter_case_is_mixed() -> None:
    name = wire_name("www.example.org.")
    mixed = {query_generation.mixed_case(name, salt) for salt in range(20)}
    assert len(mixed) > 10 and {m.lower() for m in mixed} == {name}


def test_nearby_names_are_valid() -> None:
    for owner in (wire_name("a" * 63 + ".example."), wire_name(".".join(["a"] * 127) + "."), wire_name("example.")):
        for name in query_generation.nearby_absent_names(owner):
            assert parse(Query(name, A).wire()).question[:-4] == name.lower()


def test_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log.xz"
    log.write_bytes(
        lzma.compress(rb"""query www.Example. IN A
no_reply
query www.Example. IN A
query sp\032ace. IN A
query a. CLASS256 TYPE256
query b. CH MD
""")
    )
    found = query_generation.queries_from_log(log, 1232, True)
    assert [q.name for q in found] == [wire_name("www.Example."), b"\6sp ace\0", b"\1a\0", b"\1b\0"]
    assert [(q.qtype, q.qclass) for q in found] == [(1, 1), (1, 1), (256, 256), (3, 3)]
    assert [bool(q.oddity) for q in found] == [False, False, True, True]
    assert all(q.payload == 1232 and q.dnssec for q in found)


def udp(payload: bytes, port: int = 53) -> bytes:
    return struct.pack(">HHHH", 999, port, 8 + len(payload), 0) + payload


def ipv4(datagram: bytes, protocol: int = 17, fragment: int = 0) -> bytes:
    return bytes(12) + b"\x08\0" + bytes([0x45, 0, 0, 0, 0, 0]) + struct.pack(">H", fragment) + bytes([64, protocol]) + bytes(10) + datagram


def ipv6(datagram: bytes) -> bytes:
    return bytes(12) + b"\x86\xdd" + b"\x60" + bytes(5) + bytes([17, 64]) + bytes(32) + datagram


def test_a_capture_is_read(tmp_path: Path) -> None:
    query = Query(wire_name("a."), A).wire()
    other, response, broken = Query(wire_name("b."), A, payload=4096, dnssec=True).wire(), b"\0\1\x80" + query[3:], query[:-3]
    update = query[:2] + b"\x28" + query[3:]
    frames = [
        ipv4(udp(b"\1\2" + query[2:])),
        ipv4(udp(query)),
        ipv6(udp(other)),
        ipv4(udp(response)),
        ipv4(udp(query, 54)),
        ipv4(udp(query), 6),
        ipv4(udp(query), fragment=0x2000),
        ipv4(udp(broken)),
        ipv4(udp(update)),
    ]
    file = tmp_path / "capture.xz"
    with lzma.open(file, "wb") as capture:
        dpkt.pcapng.Writer(capture).writepkts((0.0, frame) for frame in frames)
    found = query_generation.queries_from_capture(file)
    assert [q.wire() for q in found] == [query, other, broken, update]
    assert (found[1].payload, found[1].dnssec) == (4096, True)
    assert [q.acceptable for q in found] == [frozenset(), frozenset(), {"FORMERR", "silence"}, {"NOTAUTH"}]


def test_captured_updates_of_the_root_are_refused_and_others_not_authoritative() -> None:
    for zone, acceptable in ((".", "REFUSED"), ("lan.", "NOTAUTH")):
        query = Query(wire_name(zone), SOA).wire()
        assert query_generation.captured_query(query[:2] + b"\x28" + query[3:]).acceptable == {acceptable}


def test_malformed_queries_match_their_descriptions() -> None:
    cases = {q.oddity: q for q in malformed_queries.malformed_queries(wire_name("www.example."), wire_name("example."))}
    assert len(cases) == len(malformed_queries.malformed_queries(wire_name("www.example."), wire_name("example.")))
    assert all(q.acceptable and q.rfc for q in cases.values())
    for note in ("two OPT", "name points to itself", "label of 64 octets", "name of 256 octets", "1 trailing octet", "option header cut"):
        with pytest.raises(Malformed):
            parse(cases[note].wire())
    for note in ("NOTIFY", "opcode 15", "EDNS version 1", "class CHAOS", "option unknown", "COOKIE of 8 octets", "TSIG with an unknown key"):
        parse(cases[note].wire())
