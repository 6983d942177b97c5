"""Equivalent messages compare equal, others differ, and malformed messages are rejected."""

import struct

import pytest

import message
from dns_numbers import AA, IN, MX, NS, OPT, QR, SOA, A
from message import Query, parse
from names import Malformed, wire_name


def header(flags: int = QR | AA, qd: int = 1, an: int = 0, ns: int = 0, ar: int = 0) -> bytes:
    return struct.pack(">6H", 7, flags, qd, an, ns, ar)


def record(owner: bytes, rtype: int, rdata: bytes, ttl: int = 60) -> bytes:
    return owner + struct.pack(">HHIH", rtype, IN, ttl, len(rdata)) + rdata


ASKED = wire_name("WwW.Example.") + struct.pack(">HH", A, IN)
FIRST, SECOND = record(b"\xc0\x0c", A, b"\1\2\3\4"), record(wire_name("www.example."), A, b"\1\2\3\5")


def test_order_case_and_compression_do_not_matter() -> None:
    one = parse(header(an=2) + ASKED + FIRST + SECOND)
    other = parse(header(an=2) + ASKED.lower() + SECOND + FIRST)
    assert one.answer == other.answer and one.question == other.question


def test_ttl_data_and_section_matter() -> None:
    base = parse(header(an=1) + ASKED + FIRST)
    assert base.answer != parse(header(an=1) + ASKED + record(b"\xc0\x0c", A, b"\1\2\3\4", ttl=61)).answer
    assert base.answer != parse(header(an=1) + ASKED + record(b"\xc0\x0c", A, b"\1\2\3\5")).answer
    assert base.answer != parse(header(ns=1) + ASKED + FIRST).answer


@pytest.mark.parametrize(
    ("rtype", "compressed", "plain"),
    [
        (NS, b"\2ns\xc0\x10", wire_name("NS.example.")),
        (MX, b"\0\5\2mx\xc0\x10", b"\0\5" + wire_name("mx.EXAMPLE.")),
        (SOA, b"\2ns\xc0\x10\1h\xc0\x10" + bytes(20), wire_name("ns.example.") + wire_name("h.example.") + bytes(20)),
        (35, b"\0\1\0\2\1S\0\3!a!\2ns\xc0\x10", b"\0\1\0\2\1S\0\3!a!" + wire_name("ns.example.")),
    ],
)
def test_names_in_rdata_are_uncompressed(rtype: int, compressed: bytes, plain: bytes) -> None:
    one, other = (parse(header(an=1) + ASKED + record(b"\xc0\x0c", rtype, rdata)) for rdata in (compressed, plain))
    assert one.answer == other.answer


def test_case_of_an_nsec_name_is_kept() -> None:
    """RFC 6840 5.1: it is signed in its original case."""
    lower, upper = (parse(header(an=1) + ASKED + record(b"\xc0\x0c", 47, wire_name(n) + b"\0\1\x40")) for n in ("a.", "A."))
    assert lower.answer != upper.answer


def test_duplicate_records_are_counted() -> None:
    assert parse(header(an=3) + ASKED + FIRST + SECOND + FIRST).duplicates == 1


def test_opt_is_decoded() -> None:
    opt = b"\0" + struct.pack(">HHIH", OPT, 1232, 0x01008000, 6) + struct.pack(">HH", 3, 2) + b"ab"
    found = parse(header(ar=1) + ASKED + opt)
    assert found.rcode == 16 and not found.additional
    assert found.edns == message.Edns(1232, 0, 0x8000, ((3, b"ab"),))


def test_end_of_the_authority_section() -> None:
    assert parse(header(an=1, ar=1) + ASKED + FIRST + SECOND).authority_end == 12 + len(ASKED) + len(FIRST)


@pytest.mark.parametrize(
    "wire",
    [
        b"\0" * 11,
        header() + ASKED + b"\0",
        header(an=1) + ASKED,
        header(an=1) + ASKED + FIRST[:-1],
        header() + b"\xc0\x0c" + bytes(4),
        header(an=1) + ASKED + record(b"\xc0\x40", A, bytes(4)),
        header() + b"\x40" + bytes(70),
        header() + b"\1a" * 130 + b"\0" + bytes(4),
        header(an=1) + ASKED + record(b"\xc0\x0c", NS, b"\2ns\xc0\x10")[:-1] + b"\xff",
        header(ar=2) + ASKED + (b"\0" + struct.pack(">HHIH", OPT, 512, 0, 0)) * 2,
        header(ar=1) + ASKED + b"\0" + struct.pack(">HHIH", OPT, 512, 0, 3) + b"\0\3\0",
    ],
)
def test_malformed_messages_are_rejected(wire: bytes) -> None:
    with pytest.raises(Malformed):
        parse(wire)


def test_a_query_is_decoded() -> None:
    made = Query(wire_name("wWw.example."), A, IN, 1232, True)
    found = Query.from_wire(made.wire())
    assert (found.name, found.qtype, found.qclass, found.payload, found.dnssec) == (made.name, A, IN, 1232, True)
    assert found.wire() == made.wire()


def test_size_limit() -> None:
    """RFC 6891 6.2.3: less than 512 is treated as 512."""
    name = wire_name("a.")
    limits = [
        Query(name, A).size_limit,
        Query(name, A, payload=300).size_limit,
        Query(name, A, payload=4096).size_limit,
        Query(name, A, tcp=True).size_limit,
    ]
    assert limits == [512, 512, 4096, 65535]
