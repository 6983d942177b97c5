"""Malformed and unusual queries, each with its acceptable outcomes and the RFC that determines them.

The outcome is the RCODE, or silence. Where an RFC leaves a choice, all its outcomes are listed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dns_numbers import AA, AD, ANY, CD, CH, DO, IN, NS, OPT, QR, RA, RD, SOA, TC, TXT, A, Z
from message import Query

# Description, message, acceptable outcomes separated by blanks, RFC.
MalformedQuery = tuple[str, bytes, str, str]
ALL_FLAGS = 0x07F0


def malformed_queries(name: bytes, apex: bytes, tcp: bool = False) -> list[Query]:
    """Malformed and unusual queries about `name`, which has an A record, in the zone `apex`."""
    cases = [
        *truncated_messages(name),
        *wrong_counts(name),
        *names(name, apex),
        *headers(name, apex),
        *classes(name, apex),
        *types(name, apex, tcp),
        *edns(name),
        *options(name),
        *cookies(name),
        *signatures(name),
    ]
    return [
        Query(name, A, tcp=tcp, raw=raw, oddity=oddity, acceptable=frozenset(acceptable.split()), rfc=rfc) for oddity, raw, acceptable, rfc in cases
    ]


def header(flags: int = 0, qd: int = 1, an: int = 0, ns: int = 0, ar: int = 0) -> bytes:
    return struct.pack(">6H", 0, flags, qd, an, ns, ar)


def question(name: bytes, qtype: int = A, qclass: int = IN) -> bytes:
    return name + struct.pack(">HH", qtype, qclass)


def record(owner: bytes, rtype: int, rdata: bytes = b"", rclass: int = IN, ttl: int = 0, length: int | None = None) -> bytes:
    return owner + struct.pack(">HHIH", rtype, rclass, ttl, len(rdata) if length is None else length) + rdata


def opt(rdata: bytes = b"", version: int = 0, flags: int = 0, payload: int = 1232, owner: bytes = b"\0", length: int | None = None) -> bytes:
    return record(owner, OPT, rdata, payload, version << 16 | flags, length)


def option(code: int, data: bytes = b"") -> bytes:
    return struct.pack(">HH", code, len(data)) + data


def truncated_messages(name: bytes) -> Iterator[MalformedQuery]:
    """Messages that end early."""
    whole = header() + question(name)
    for length in (0, 1, 2, 11, 12, 13, 12 + len(name) - 1, len(whole) - 4, len(whole) - 2, len(whole) - 1):
        yield f"cut to {length} of {len(whole)} octets", whole[:length], "silence" if length < 12 else "FORMERR", "1035 4.1.1"
    with_opt = header(ar=1) + question(name) + opt(option(3))
    for missing in (1, 4, 5, 14):
        yield f"OPT cut by {missing}", with_opt[:-missing], "FORMERR", "1035 4.1.1"


def wrong_counts(name: bytes) -> Iterator[MalformedQuery]:
    """Section counts that do not match the contents, and sections that a query does not have."""
    for oddity, raw in (
        ("one question twice", header(qd=2) + question(name) * 2),
        ("two questions", header(qd=2) + question(name) + question(name, NS)),
        ("two questions counted, one present", header(qd=2) + question(name)),
        ("65535 questions counted", header(qd=65535) + question(name)),
    ):
        yield oddity, raw, "FORMERR", "9619 4"
    yield "no question", header(qd=0), "FORMERR", "1035 4.1.2"
    yield "no question, octets after the header", header(qd=0) + question(name), "FORMERR", "1035 4.1.2"
    yield "no question but OPT", header(qd=0, ar=1) + opt(), "FORMERR NOERROR", "1035 4.1.2, 6891, silent"
    for oddity, raw in (
        ("an answer counted, none present", header(an=1) + question(name)),
        ("an authority counted, none present", header(ns=1) + question(name)),
        ("an additional counted, none present", header(ar=1) + question(name)),
        ("65535 additionals counted", header(ar=65535) + question(name) + opt()),
    ):
        yield oddity, raw, "FORMERR", "1035 4.1.1"
    for oddity, raw in (
        ("an answer in the query", header(an=1) + question(name) + record(name, A, bytes(4))),
        ("an authority in the query", header(ns=1) + question(name) + record(name, A, bytes(4))),
        ("an additional in the query", header(ar=1) + question(name) + record(name, A, bytes(4))),
        ("1 trailing octet", header() + question(name) + b"\0"),
        ("100 trailing octets", header() + question(name) + bytes(100)),
        ("octets after the OPT", header(ar=1) + question(name) + opt() + bytes(7)),
        ("4000 trailing octets", header() + question(name) + bytes(4000)),
    ):
        yield oddity, raw, "NOERROR FORMERR", "1035 4.1, silent"


def names(name: bytes, apex: bytes) -> Iterator[MalformedQuery]:
    """Malformed names, and compressed names in queries."""
    tail = struct.pack(">HH", A, IN)
    for oddity, raw in (
        ("name points to itself", b"\xc0\x0c" + tail),
        ("name points past itself", b"\xc0\x0e" + tail),
        ("name points past the message", b"\xff\xff" + tail),
        ("label, then a loop", b"\3www\xc0\x0c" + tail),
    ):
        yield oddity, header() + raw, "FORMERR", "1035 4.1.4"
    # The pointer refers back, but not to a name: the RFC does not say whether the ID may be read as one.
    yield "name points to the header", header() + b"\xc0\x00" + tail, "FORMERR REFUSED", "1035 4.1.4"
    for oddity, raw in (
        ("label of type 01", b"\x41" + name + tail),
        ("label of type 10", b"\x81" + name + tail),
        ("label of 64 octets", b"\x40" + b"a" * 64 + b"\0" + tail),
        ("label past the message", b"\x3fabc"),
        ("name without end", b"\3www"),
        ("name of 256 octets", (b"\x3f" + b"a" * 63) * 3 + b"\x3e" + b"a" * 62 + b"\0" + tail),
        ("name of 1000 octets", b"\1a" * 500 + b"\0" + tail),
    ):
        yield oddity, header() + raw, "FORMERR", "1035 3.1, 2.3.4"
    yield "additional compressed", header(ar=1) + question(apex, SOA) + record(b"\xc0\x0c", A, bytes(4)), "NOERROR FORMERR", "1035 4.1, silent"
    yield "additional name loops", header(ar=1) + question(apex, SOA) + record(bytes([0xC0, 16 + len(apex)]), A, bytes(4)), "FORMERR", "1035 4.1.4"


def headers(name: bytes, apex: bytes) -> Iterator[MalformedQuery]:
    """Flags and opcodes."""
    yield "QR set", header(QR) + question(name), "silence", "1035 4.1.1"
    yield "response to a NOTIFY", header(QR | 4 << 11) + question(apex, SOA), "silence", "1035 4.1.1"
    for bit, what in ((AA, "AA"), (TC, "TC"), (RD, "RD"), (RA, "RA"), (Z, "Z"), (AD, "AD"), (CD, "CD"), (ALL_FLAGS, "all flags but QR")):
        yield f"{what} set", header(bit) + question(name), "NOERROR", "8906 3.1.3"
    yield "RCODE 3 set", header(3) + question(name), "NOERROR FORMERR", "1035 4.1.1, silent"
    for opcode in (1, 2, 3, *range(6, 16)):
        yield f"opcode {opcode}", header(opcode << 11) + question(apex, SOA), "NOTIMP", "8906 3.1.4"
    yield "unknown opcode, all flags", header(15 << 11 | ALL_FLAGS) + question(name), "NOTIMP", "8906 3.1.4"
    yield "header only, opcode 15", header(15 << 11, qd=0), "NOTIMP", "8906 3.1.4"
    yield "UPDATE", header(5 << 11) + question(apex, SOA), "REFUSED", "2136 3.3"
    yield "UPDATE that adds a record", header(5 << 11, ns=1) + question(apex, SOA) + record(name, A, bytes(4)), "REFUSED", "2136 3.3"
    yield "NOTIFY", header(4 << 11) + question(apex, SOA), "NOTAUTH REFUSED", "1996 3.10"
    yield "NOTIFY of a name that is not an apex", header(4 << 11) + question(name, SOA), "NOTAUTH", "1996 3.11"


def classes(name: bytes, apex: bytes) -> Iterator[MalformedQuery]:
    """Classes other than IN."""
    for qclass, what in ((0, "0"), (2, "CSNET"), (CH, "CHAOS"), (4, "HESIOD"), (254, "NONE"), (256, "256"), (65535, "65535")):
        yield f"class {what}", header() + question(name, A, qclass), "REFUSED NOTIMP FORMERR", "1035 4.1.1"
    yield "class ANY", header() + question(name, A, 255), "NOERROR REFUSED NOTIMP FORMERR", "1035 3.2.5"
    yield "class ANY, type ANY", header() + question(apex, ANY, 255), "NOERROR REFUSED NOTIMP FORMERR", "1035 3.2.5"
    for text in (b"\7version\4bind\0", b"\2id\6server\0", b"\10hostname\4bind\0"):
        yield f"CHAOS TXT {text[1 : 1 + text[0]].decode()}", header() + question(text, TXT, CH), "NOERROR REFUSED", "4892 2"
    yield "CHAOS TXT of an unknown name", header() + question(b"\7nothing\4bind\0", TXT, CH), "REFUSED", "8906 3.1.1"


def types(name: bytes, apex: bytes, tcp: bool) -> Iterator[MalformedQuery]:
    """Meta-types, and names that are not served."""
    for qtype, what in ((0, "0"), (OPT, "OPT"), (249, "TKEY"), (250, "TSIG"), (253, "MAILB"), (254, "MAILA")):
        yield f"type {what}", header() + question(apex, qtype), "NOERROR NOTIMP FORMERR", "6895 3.1, silent"
    yield "type NXNAME", header() + question(apex, 128), "FORMERR", "9824 3.5"
    yield "type 65535", header() + question(apex, 65535), "NOERROR", "8906 3.1.2"
    yield "IXFR without SOA", header() + question(apex, 251), "FORMERR", "1995 3"
    yield "AXFR", header() + question(apex, 252), "NOERROR" if tcp else "FORMERR NOTIMP REFUSED", "5936 4.2"
    yield "AXFR of a name that is not an apex", header() + question(name, 252), "NOTAUTH" if tcp else "FORMERR NOTIMP REFUSED NOTAUTH", "5936 2.2.1"
    yield "type OPT in a zone not served", header() + question(b"\7nowhere\4test\0", OPT), "REFUSED FORMERR", "6895 3.1, silent"
    yield "name not served", header() + question(b"\7nowhere\4test\0"), "REFUSED", "8906 3.1.1"
    yield "root not served", header() + question(b"\0", NS), "REFUSED", "8906 3.1.1"


def edns(name: bytes) -> Iterator[MalformedQuery]:
    """OPT records: one, at the root, in the additional section, of version 0."""

    def with_opt(rest: bytes, ar: int = 1) -> bytes:
        return header(ar=ar) + question(name) + rest

    yield "EDNS version 1", with_opt(opt(version=1)), "BADVERS", "6891 6.1.3"
    yield "EDNS version 255", with_opt(opt(version=255)), "BADVERS", "6891 6.1.3"
    yield "EDNS version 1, unknown option", with_opt(opt(option(65001, b"x"), version=1)), "BADVERS", "6891 6.1.3"
    yield "EDNS version 1, no question", header(qd=0, ar=1) + opt(version=1), "BADVERS FORMERR", "6891 6.1.3, 9619 4"
    for oddity, raw in (
        ("two OPT", with_opt(opt() + opt(), ar=2)),
        ("two OPT, versions 0 and 1", with_opt(opt() + opt(version=1), ar=2)),
        ("OPT in the answer section", header(an=1) + question(name) + opt()),
        ("OPT in the authority section", header(ns=1) + question(name) + opt()),
    ):
        yield oddity, raw, "FORMERR", "6891 6.1.1"
    yield "OPT owned by a name", with_opt(opt(owner=b"\1a\0")), "FORMERR", "6891 6.1.2"
    yield "OPT longer than the message", with_opt(opt(length=100)), "FORMERR", "6891 6.1.2"
    yield "OPT then a record", with_opt(opt() + record(name, A, bytes(4)), ar=2), "NOERROR FORMERR", "6891 6.1.1"
    yield "a record then OPT", with_opt(record(name, A, bytes(4)) + opt(), ar=2), "NOERROR FORMERR", "6891 6.1.1"
    yield "all EDNS flags", with_opt(opt(flags=0xFFFF)), "NOERROR", "6891 6.1.4"
    yield "all EDNS flags but DO", with_opt(opt(flags=0xFFFF & ~DO)), "NOERROR", "6891 6.1.4"
    yield "EDNS extended RCODE set", with_opt(record(b"\0", OPT, b"", 1232, 0xFF000000)), "NOERROR", "6891 6.1.3"
    for payload in (0, 1, 511, 65535):
        yield f"EDNS payload {payload}", with_opt(opt(payload=payload)), "NOERROR", "6891 6.2.3"


def options(name: bytes) -> Iterator[MalformedQuery]:
    """Well-formed and malformed EDNS options."""

    def with_options(rdata: bytes) -> bytes:
        return header(ar=1) + question(name) + opt(rdata)

    yield "option exceeds the OPT", with_options(struct.pack(">HH", 3, 9) + b"abc"), "FORMERR", "6891 6.1.2"
    yield "option header cut", with_options(b"\0\3\0"), "FORMERR", "6891 6.1.2"
    for what, rdata in (
        ("unknown", option(65001, b"abcd")),
        ("unknown, 600 octets", option(65001, bytes(600))),
        ("one hundred unknown", option(65001) * 100),
        ("NSID", option(3)),
        ("NSID with data", option(3, b"abc")),
        ("NSID twice", option(3) * 2),
        ("EXPIRE", option(9)),
        ("padding", option(12, bytes(20))),
        ("EDE", option(15, b"\0\0")),
        ("CHAIN query", option(13, b"\0")),
        ("REPORT-CHANNEL", option(18, b"\1a\0")),
        ("keepalive", option(11)),
        ("DAU", option(5, b"\x0d")),
        ("ECS", option(8, b"\0\1\x18\0\xc0\0\2")),
    ):
        yield f"option {what}", with_options(rdata), "NOERROR", "6891 6.1.2"
    for what, rdata, rfc in (
        ("ZONEVERSION", option(19), "9660 3.2"),
        ("ZONEVERSION with data", option(19, b"\0\0abcd"), "9660 3.2"),
        ("keepalive with time-out", option(11, b"\0\1"), "7828 3.2"),
        ("keepalive of 3 octets", option(11, b"abc"), "7828 3.1"),
        ("ECS scope set", option(8, b"\0\1\x18\x18\xc0\0\2"), "7871 7.1.1"),
        ("ECS too short", option(8, b"\0"), "7871 7.1.1"),
        ("ECS unknown family", option(8, b"\0\x09\x18\0\xc0\0\2"), "7871 7.1.1"),
    ):
        yield f"option {what}", with_options(rdata), "NOERROR FORMERR", rfc


def cookies(name: bytes) -> Iterator[MalformedQuery]:
    """COOKIE: FORMERR for an invalid length (RFC 7873 5.2.2), BADCOOKIE allowed for a wrong one (5.2.3), the first of several counts (5.2)."""
    for length in (0, 1, 7, 8, 9, 15, 16, 24, 32, 40, 41):
        acceptable = "NOERROR BADCOOKIE" if length == 8 or 16 <= length <= 40 else "FORMERR"
        yield f"COOKIE of {length} octets", header(ar=1) + question(name) + opt(option(10, bytes(range(length)))), acceptable, "7873 5.2.2"
    yield "COOKIE without a question", header(qd=0, ar=1) + opt(option(10, bytes(8))), "NOERROR BADCOOKIE FORMERR", "7873 5.4"
    yield "COOKIE twice", header(ar=1) + question(name) + opt(option(10, bytes(8)) * 2), "NOERROR BADCOOKIE", "7873 5.2"


def signatures(name: bytes) -> Iterator[MalformedQuery]:
    """TSIG and SIG(0)."""
    rdata = b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0" + struct.pack(">HIHH", 0, 0x60000000, 300, 16) + bytes(22)
    tsig = record(b"\3key\0", 250, rdata, 255)
    yield "TSIG with an unknown key", header(ar=1) + question(name) + tsig, "NOTAUTH", "8945 5.2.1"
    yield "OPT, then TSIG with an unknown key", header(ar=2) + question(name) + opt() + tsig, "NOTAUTH", "8945 5.2.1"
    yield "TSIG before OPT", header(ar=2) + question(name) + tsig + opt(), "FORMERR", "8945 5.1"
    yield "two TSIG", header(ar=2) + question(name) + tsig * 2, "FORMERR", "8945 5.1"
    yield "TSIG in the answer section", header(an=1) + question(name) + tsig, "FORMERR", "8945 5.1"
    yield "TSIG cut short", header(ar=1) + question(name) + record(b"\3key\0", 250, b"\x08hmac", 255), "FORMERR", "8945 5.2"
    yield "TSIG of class IN", header(ar=1) + question(name) + record(b"\3key\0", 250, bytes(16)), "FORMERR", "8945 4.2"
    yield "SIG(0)", header(ar=1) + question(name) + record(b"\0", 24, bytes(40), 255), "NOERROR FORMERR", "2931 3"
