"""Messages that are wrong or odd, each with a note of how: compared by whether there is an answer and by its RCODE."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from message import ANY, CH, DO, IN, NS, OPT, QR, RD, SOA, TXT, A, Question

Parts = Iterator[tuple[str, bytes]]
ALL_FLAGS = 0x07F0


def questions(name: bytes, apex: bytes) -> list[Question]:
    """Ill-formed and odd messages about `name`, which has an A record, in the zone `apex`."""
    parts = [*cut_short(name), *counts(name), *names(name, apex), *headers(name, apex), *classes_and_types(name, apex), *edns(name), *options(name),
             *signatures(name)]
    return [Question(name, A, raw=raw, note=note) for note, raw in parts]


def header(flags: int = 0, qd: int = 1, an: int = 0, ns: int = 0, ar: int = 0) -> bytes:
    return struct.pack(">6H", 0, flags, qd, an, ns, ar)


def asked(name: bytes, qtype: int = A, qclass: int = IN) -> bytes:
    return name + struct.pack(">HH", qtype, qclass)


def record(owner: bytes, rtype: int, rdata: bytes = b"", rclass: int = IN, ttl: int = 0, length: int | None = None) -> bytes:
    return owner + struct.pack(">HHIH", rtype, rclass, ttl, len(rdata) if length is None else length) + rdata


def opt(rdata: bytes = b"", version: int = 0, flags: int = 0, payload: int = 1232, owner: bytes = b"\0", length: int | None = None) -> bytes:
    return record(owner, OPT, rdata, payload, version << 16 | flags, length)


def option(code: int, data: bytes = b"") -> bytes:
    return struct.pack(">HH", code, len(data)) + data


def cut_short(name: bytes) -> Parts:
    """Messages that end too early (RFC 1035 4.1.1: no ID, no header, no answer)."""
    whole = header() + asked(name)
    for length in (0, 1, 2, 11, 12, 13, 12 + len(name) - 1, len(whole) - 4, len(whole) - 2, len(whole) - 1):
        yield f"cut to {length} of {len(whole)} octets", whole[:length]
    with_opt = header(ar=1) + asked(name) + opt(option(3))
    for missing in (1, 4, 5, 14):
        yield f"OPT cut by {missing}", with_opt[:-missing]


def counts(name: bytes) -> Parts:
    """Counts that do not fit what follows, and sections a query does not have."""
    yield "no question", header(qd=0)
    yield "no question but OPT", header(qd=0, ar=1) + opt()
    yield "no question, octets behind", header(qd=0) + asked(name)
    yield "one question twice", header(qd=2) + asked(name) + asked(name)
    yield "two questions", header(qd=2) + asked(name) + asked(name, NS)
    yield "two questions counted, one there", header(qd=2) + asked(name)
    yield "65535 questions counted", header(qd=65535) + asked(name)
    yield "an answer counted, none there", header(an=1) + asked(name)
    yield "an authority counted, none there", header(ns=1) + asked(name)
    yield "an additional counted, none there", header(ar=1) + asked(name)
    yield "65535 additionals counted", header(ar=65535) + asked(name) + opt()
    yield "an answer in the query", header(an=1) + asked(name) + record(name, A, bytes(4))
    yield "an authority in the query", header(ns=1) + asked(name) + record(name, A, bytes(4))
    yield "an additional in the query", header(ar=1) + asked(name) + record(name, A, bytes(4))
    yield "1 octet behind", header() + asked(name) + b"\0"
    yield "100 octets behind", header() + asked(name) + bytes(100)
    yield "octets behind the OPT", header(ar=1) + asked(name) + opt() + bytes(7)
    yield "4000 octets behind", header() + asked(name) + bytes(4000)


def names(name: bytes, apex: bytes) -> Parts:
    """Names that are none (RFC 1035 2.3.4, 4.1.4), and compressed ones, which are."""
    tail = struct.pack(">HH", A, IN)
    yield "name points to itself", header() + b"\xc0\x0c" + tail
    yield "name points behind itself", header() + b"\xc0\x0e" + tail
    yield "name points to the header", header() + b"\xc0\x00" + tail
    yield "name points beyond the message", header() + b"\xff\xff" + tail
    yield "label, then a loop", header() + b"\3www\xc0\x0c" + tail
    yield "label of type 01", header() + b"\x41" + name + tail
    yield "label of type 10", header() + b"\x81" + name + tail
    yield "label of 64 octets", header() + b"\x40" + b"a" * 64 + b"\0" + tail
    yield "name of 256 octets", header() + (b"\x3f" + b"a" * 63) * 3 + b"\x3e" + b"a" * 62 + b"\0" + tail
    yield "name of 1000 octets", header() + b"\1a" * 500 + b"\0" + tail
    yield "label beyond the message", header() + b"\x3fabc"
    yield "name without end", header() + b"\3www"
    yield "second name points to the first", header(qd=1, ar=1) + asked(apex, SOA) + record(b"\xc0\x0c", A, bytes(4))
    yield "additional name loops", header(qd=1, ar=1) + asked(apex, SOA) + record(bytes([0xC0, 16 + len(apex)]), A, bytes(4))


def headers(name: bytes, apex: bytes) -> Parts:
    """Flags and opcodes (RFC 8906 3.1: unknown opcodes NOTIMP, unknown flags ignored; responses never answered)."""
    for bit, what in ((QR, "QR"), (0x0400, "AA"), (0x0200, "TC"), (RD, "RD"), (0x0080, "RA"), (0x0040, "Z"), (0x0020, "AD"), (0x0010, "CD"),
                      (ALL_FLAGS, "all flags but QR"), (3, "RCODE 3")):
        yield f"{what} set", header(bit) + asked(name)
    for opcode in range(1, 16):
        yield f"opcode {opcode}", header(opcode << 11) + asked(apex, SOA)
    yield "unknown opcode, all flags", header(15 << 11 | ALL_FLAGS) + asked(name)
    yield "response to a NOTIFY", header(QR | 4 << 11) + asked(apex, SOA)
    yield "header only, opcode 15", header(15 << 11, qd=0)
    yield "UPDATE that adds a record", header(5 << 11, ns=1) + asked(apex, SOA) + record(name, A, bytes(4))
    yield "NOTIFY of a name that is no zone", header(4 << 11) + asked(name, SOA)


def classes_and_types(name: bytes, apex: bytes) -> Parts:
    """Classes other than IN, and types that are no data."""
    for qclass, what in ((0, "0"), (2, "CSNET"), (CH, "CHAOS"), (4, "HESIOD"), (254, "NONE"), (255, "ANY"), (256, "256"), (65535, "65535")):
        yield f"class {what}", header() + asked(name, A, qclass)
    for text in (b"\7version\4bind\0", b"\2id\6server\0", b"\10hostname\4bind\0", b"\7nothing\4bind\0"):
        yield f"CHAOS TXT {text[1:8].decode()}", header() + asked(text, TXT, CH)
    for qtype, what in ((0, "0"), (OPT, "OPT"), (249, "TKEY"), (250, "TSIG"), (251, "IXFR"), (252, "AXFR"), (253, "MAILB"), (254, "MAILA"), (128, "NXNAME"), (65535, "65535")):
        yield f"type {what}", header() + asked(apex, qtype)
    yield "type OPT in a zone not served", header() + asked(b"\7nowhere\4test\0", OPT)
    yield "a name not served", header() + asked(b"\7nowhere\4test\0")
    yield "the root", header() + asked(b"\0", NS)
    yield "class ANY, type ANY", header() + asked(apex, ANY, 255)


def edns(name: bytes) -> Parts:
    """OPT records (RFC 6891 6.1: one, at the root, in the additional section; BADVERS above version 0)."""
    def with_opt(rest: bytes, ar: int = 1) -> bytes:
        return header(ar=ar) + asked(name) + rest

    yield "EDNS version 1", with_opt(opt(version=1))
    yield "EDNS version 255", with_opt(opt(version=255))
    yield "EDNS version 1, unknown option", with_opt(opt(option(65001, b"x"), version=1))
    yield "EDNS version 1, no question", header(qd=0, ar=1) + opt(version=1)
    yield "two OPT", with_opt(opt() + opt(), ar=2)
    yield "two OPT, versions 0 and 1", with_opt(opt() + opt(version=1), ar=2)
    yield "OPT owned by a name", with_opt(opt(owner=b"\1a\0"))
    yield "OPT in the answer section", header(an=1) + asked(name) + opt()
    yield "OPT in the authority section", header(ns=1) + asked(name) + opt()
    yield "OPT longer than the message", with_opt(opt(length=100))
    yield "OPT then a record", with_opt(opt() + record(name, A, bytes(4)), ar=2)
    yield "a record then OPT", with_opt(record(name, A, bytes(4)) + opt(), ar=2)
    yield "all EDNS flags", with_opt(opt(flags=0xFFFF))
    yield "all EDNS flags but DO", with_opt(opt(flags=0xFFFF & ~DO))
    yield "EDNS extended RCODE set", with_opt(record(b"\0", OPT, b"", 1232, 0xFF000000))
    for payload in (0, 1, 511, 65535):
        yield f"EDNS payload {payload}", with_opt(opt(payload=payload))


def options(name: bytes) -> Parts:
    """EDNS options, well-formed and not (RFC 6891 6.1.2; 7873 5.2.2: a COOKIE of impossible length is FORMERR)."""
    odd = [("beyond the OPT", struct.pack(">HH", 3, 9) + b"abc"), ("header cut", b"\0\3\0"), ("unknown", option(65001, b"abcd")),
           ("unknown, 600 octets", option(65001, bytes(600))), ("one hundred unknown", option(65001) * 100), ("NSID", option(3)),
           ("NSID with data", option(3, b"abc")), ("EXPIRE", option(9)), ("padding", option(12, bytes(20))), ("EDE", option(15, b"\0\0")),
           ("chain query", option(13, b"\0")), ("ZONEVERSION", option(19)), ("ZONEVERSION with data", option(19, b"\0\0abcd")),
           ("keepalive without time-out", option(11)), ("keepalive with time-out", option(11, b"\0\1")), ("keepalive of 3 octets", option(11, b"abc")),
           ("ECS", option(8, b"\0\1\x18\0\xc0\0\2")), ("ECS scope set", option(8, b"\0\1\x18\x18\xc0\0\2")), ("ECS too short", option(8, b"\0")),
           ("ECS unknown family", option(8, b"\0\x09\x18\0\xc0\0\2")), ("DAU", option(5, b"\x0d")), ("REPORT-CHANNEL", option(18, b"\1a\0"))]
    odd += [(f"COOKIE of {n} octets", option(10, bytes(range(n)))) for n in (0, 1, 7, 8, 9, 15, 16, 24, 32, 40, 41)]
    odd += [("COOKIE twice", option(10, bytes(8)) * 2), ("NSID twice", option(3) * 2)]
    for what, rdata in odd:
        yield f"option {what}", header(ar=1) + asked(name) + opt(rdata)


def signatures(name: bytes) -> Parts:
    """TSIG (RFC 8945 5.2: unknown key NOTAUTH, not last FORMERR) and SIG(0)."""
    def tsig(mac: bytes = bytes(16), owner: bytes = b"\3key\0") -> bytes:
        rdata = b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0" + struct.pack(">HIHH", 0, 0x60000000, 300, len(mac)) + mac + bytes(6)
        return record(owner, 250, rdata, 255)

    yield "TSIG with an unknown key", header(ar=1) + asked(name) + tsig()
    yield "TSIG before OPT", header(ar=2) + asked(name) + tsig() + opt()
    yield "OPT, then TSIG with an unknown key", header(ar=2) + asked(name) + opt() + tsig()
    yield "two TSIG", header(ar=2) + asked(name) + tsig() + tsig()
    yield "TSIG in the answer section", header(an=1) + asked(name) + tsig()
    yield "TSIG cut short", header(ar=1) + asked(name) + record(b"\3key\0", 250, b"\x08hmac", 255)
    yield "TSIG of class IN", header(ar=1) + asked(name) + record(b"\3key\0", 250, bytes(16), IN)
    yield "SIG(0)", header(ar=1) + asked(name) + record(b"\0", 24, bytes(40), 255)
