"""DNS messages as this tool sees them: queries to bytes, answers to values that compare equal when they mean the same.

dnspython is not used here on purpose: a server under test may send anything, and half a million answers are read in a run.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import dns.exception
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from names import Malformed, name_text, read_name

A, NS, CNAME, SOA, MX, TXT, AAAA, SRV = 1, 2, 5, 6, 15, 16, 28, 33
DNAME, OPT, DS, RRSIG, NSEC, DNSKEY, NSEC3, NSEC3PARAM = 39, 41, 43, 46, 47, 48, 50, 51
AXFR, ANY = 252, 255
IN, CH = 1, 3

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, YXDOMAIN, NOTAUTH, BADVERS, BADCOOKIE = 0, 1, 2, 3, 4, 5, 6, 9, 16, 23
RCODES = {
    0: "NOERROR",
    1: "FORMERR",
    2: "SERVFAIL",
    3: "NXDOMAIN",
    4: "NOTIMP",
    5: "REFUSED",
    6: "YXDOMAIN",
    9: "NOTAUTH",
    16: "BADVERS",
    23: "BADCOOKIE",
}

# Flag bits of the header (RFC 1035 4.1.1, RFC 2535 6.1) and of the OPT TTL (RFC 3225 3).
QR, AA, TC, RD, RA, Z, AD, CD = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0020, 0x0010
DO = 0x8000
# Answers over UDP are no longer, so that they are not fragmented.
UDP_MOST = 1232

# Where names stand in the data of a type: octets before the first name, and how many names follow one another.
# These are the types whose names a server may compress or lower-case (RFC 3597 4, RFC 4034 6.2), and SVCB and HTTPS.
# NSEC is not among them: the case of its name is signed (RFC 6840 5.1).
NAMES_IN_RDATA = {
    2: (0, 1),
    3: (0, 1),
    4: (0, 1),
    5: (0, 1),
    6: (0, 2),
    7: (0, 1),
    8: (0, 1),
    9: (0, 1),
    12: (0, 1),
    14: (0, 2),
    15: (2, 1),
    17: (0, 2),
    18: (2, 1),
    21: (2, 1),
    26: (2, 2),
    33: (6, 1),
    36: (2, 1),
    39: (0, 1),
    46: (18, 1),
    64: (2, 1),
    65: (2, 1),
    107: (2, 1),
}


class Record(NamedTuple):
    """One resource record; `owner` and the names in `rdata` are uncompressed, lower-case wire format."""

    owner: bytes
    rtype: int
    rclass: int
    ttl: int
    rdata: bytes

    def __str__(self) -> str:
        return f"{name_text(self.owner)} {self.ttl} {class_text(self.rclass)} {type_text(self.rtype)} {rdata_text(self.rtype, self.rdata)}"


class Edns(NamedTuple):
    """The OPT record of a message (RFC 6891 6.1)."""

    payload: int
    version: int
    flags: int
    options: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Question:
    """What is asked and how. `name` is wire format in the case it is sent in; `payload` None means no EDNS.

    A message with more to it than that is sent as it stands in `raw`. An odd one has a `note` of what is odd, the outcomes that are
    right for it (an RCODE or "silence") and the RFC that says so.
    """

    name: bytes
    qtype: int
    qclass: int = IN
    payload: int | None = None
    dnssec: bool = False
    tcp: bool = False
    raw: bytes | None = None
    note: str = ""
    right: frozenset[str] = frozenset()
    rfc: str = ""

    @classmethod
    def from_wire(cls, raw: bytes) -> Question:
        """A query somebody else made, sent as it is; raises `Malformed` when it is not well-formed with one question."""
        if struct.unpack_from(">H", raw, 4)[0] != 1:
            raise Malformed("not one question")
        name, at = read_name(raw, 12, {})
        message = parse(raw)
        qtype, qclass = struct.unpack_from(">HH", raw, at)
        edns = message.edns
        return cls(name, qtype, qclass, edns.payload if edns else None, bool(edns and edns.flags & DO), raw=raw)

    def wire(self) -> bytes:
        """The query message, with ID 0."""
        if self.raw is not None:
            return self.raw
        opt = b"" if self.payload is None else b"\0" + struct.pack(">HHIH", OPT, self.payload, DO if self.dnssec else 0, 0)
        return struct.pack(">6H", 0, 0, 1, 0, 0, 1 if opt else 0) + self.name + struct.pack(">HH", self.qtype, self.qclass) + opt

    @property
    def room(self) -> int:
        """How many octets the answer may have (RFC 1035 4.2.1, RFC 6891 6.2.3)."""
        return 65535 if self.tcp else max(512, self.payload or 512)

    @property
    def room_served(self) -> int:
        """How many of these the servers under comparison use by their defaults (RFC 9715 3)."""
        return self.room if self.tcp else min(self.room, UDP_MOST)

    def __str__(self) -> str:
        if self.note:
            return f"{self.note}: {self.wire().hex()} ({'TCP' if self.tcp else 'UDP'})"
        how = "no EDNS" if self.payload is None else f"EDNS {self.payload}" + (" DO" if self.dnssec else "")
        return f"{name_text(self.name)} {class_text(self.qclass)} {type_text(self.qtype)} ({how}, {'TCP' if self.tcp else 'UDP'})"


@dataclass(frozen=True)
class Answer:
    """An answer in its comparable form: sections are sets, names lower-case, the OPT record apart."""

    rcode: int
    flags: int
    opcode: int
    question: bytes
    answer: frozenset[Record]
    authority: frozenset[Record]
    additional: frozenset[Record]
    edns: Edns | None
    size: int
    core: int  # octets up to the end of the authority section
    doubled: int = 0
    wire: bytes = field(default=b"", compare=False, repr=False)

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)

    @property
    def records(self) -> frozenset[Record]:
        return self.answer | self.authority | self.additional


def parse(wire: bytes) -> Answer:
    """The comparable form of a message; raises `Malformed` when it has trailing octets, bad counts or bad pointers."""
    if len(wire) < 12:
        raise Malformed(f"only {len(wire)} octets, a header has 12")
    _, flags, questions, *counts = struct.unpack_from(">6H", wire)
    names: dict[int, tuple[bytes, int]] = {}
    at, question, core = 12, b"", 0
    for _ in range(questions):
        name, at = read_name(wire, at, names)
        question += name.lower() + wire[at : at + 4]
        at += 4
    sections: list[frozenset[Record]] = []
    edns: list[Edns] = []
    extended = doubled = 0
    for count in counts:
        core = at
        records, at = read_records(wire, at, count, names)
        for record in [r for r in records if r.rtype == OPT]:
            records.remove(record)
            edns.append(read_edns(record))
            extended = record.ttl >> 24 << 4
        unique = frozenset(records)
        doubled += len(records) - len(unique)
        sections.append(unique)
    if at != len(wire):
        raise Malformed(f"{len(wire) - at} octets after the last record")
    if len(edns) > 1:
        raise Malformed("two OPT records")
    return Answer(
        extended | flags & 15,
        flags & 0x87F0,
        flags >> 11 & 15,
        question,
        sections[0],
        sections[1],
        sections[2],
        edns[0] if edns else None,
        len(wire),
        core,
        doubled,
        wire,
    )


def read_records(wire: bytes, at: int, count: int, names: dict[int, tuple[bytes, int]]) -> tuple[list[Record], int]:
    """`count` records from offset `at`, and the offset behind them."""
    records = []
    for _ in range(count):
        owner, at = read_name(wire, at, names)
        if at + 10 > len(wire):
            raise Malformed("message ends within a record")
        rtype, rclass, ttl, length = struct.unpack_from(">HHIH", wire, at)
        at += 10
        if at + length > len(wire):
            raise Malformed("message ends within record data")
        records.append(Record(owner.lower(), rtype, rclass, ttl, read_rdata(wire, at, length, rtype, names)))
        at += length
    return records, at


def read_rdata(wire: bytes, at: int, length: int, rtype: int, names: dict[int, tuple[bytes, int]]) -> bytes:
    """Record data with its names uncompressed and lower-cased."""
    if rtype == 35:
        return read_naptr(wire, at, length, names)
    if rtype not in NAMES_IN_RDATA:
        return wire[at : at + length]
    before, count = NAMES_IN_RDATA[rtype]
    end, out = at + length, wire[at : at + before]
    at += before
    for _ in range(count):
        name, at = read_name(wire, at, names)
        out += name.lower()
    if at > end:
        raise Malformed(f"a name leaves its {type_text(rtype)} data")
    return out + wire[at:end]


def read_naptr(wire: bytes, at: int, length: int, names: dict[int, tuple[bytes, int]]) -> bytes:
    """NAPTR data (RFC 3403 4.1): the name stands behind three character strings."""
    name_at = at + 4
    for _ in range(3):
        if name_at >= at + length:
            raise Malformed("a string leaves its NAPTR data")
        name_at += 1 + wire[name_at]
    name, end = read_name(wire, name_at, names)
    if end != at + length:
        raise Malformed("a name leaves its NAPTR data")
    return wire[at:name_at] + name.lower()


def read_edns(record: Record) -> Edns:
    """The parts of an OPT record (RFC 6891 6.1.2, 6.1.3)."""
    options, at = [], 0
    while at + 4 <= len(record.rdata):
        code, length = struct.unpack_from(">HH", record.rdata, at)
        options.append((code, record.rdata[at + 4 : at + 4 + length]))
        at += 4 + length
    if at != len(record.rdata) or record.owner != b"\0":
        raise Malformed("ill-formed OPT record")
    return Edns(record.rclass, record.ttl >> 16 & 255, record.ttl & 0xFFFF, tuple(options))


def type_text(rtype: int) -> str:
    return dns.rdatatype.to_text(dns.rdatatype.RdataType.make(rtype))


def class_text(rclass: int) -> str:
    return dns.rdataclass.to_text(dns.rdataclass.RdataClass.make(rclass))


@lru_cache(maxsize=1 << 16)
def rdata_text(rtype: int, rdata: bytes) -> str:
    """Presentation form of record data; RFC 3597 5 form when it cannot be read."""
    try:
        return rdata_from_wire(rtype, rdata).to_text()
    except (dns.exception.DNSException, ValueError, IndexError):
        return f"\\# {len(rdata)} {rdata.hex()}"


def rdata_from_wire(rtype: int, rdata: bytes) -> dns.rdata.Rdata:
    """Record data as dnspython has them; raises its errors."""
    return dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.RdataType.make(rtype), rdata, 0, len(rdata))


def rcode_text(rcode: int) -> str:
    return RCODES.get(rcode, f"RCODE{rcode}")
