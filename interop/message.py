"""DNS messages: encodes queries, and parses responses into values that compare equal if they are equivalent.

dnspython does not parse responses here: it rejects some malformed ones and is too slow for half a million in a run.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import dns.exception
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from dns_numbers import DO, IN, OPT
from names import Malformed, name_text, read_name

# Default maximum UDP response size of the servers, which avoids fragmentation (RFC 9715 3).
UDP_SIZE_SERVED = 1232

# Domain names in RDATA by type: offset of the first name, and number of consecutive names.
# Lists the types whose names a server may compress or lower-case (RFC 3597 4, RFC 4034 6.2), plus SVCB and HTTPS.
# NSEC is not listed: the case of its name is signed (RFC 6840 5.1).
NAMES_IN_RDATA = {
    **dict.fromkeys((2, 3, 4, 5, 7, 8, 9, 12, 39), (0, 1)),
    **dict.fromkeys((6, 14, 17), (0, 2)),
    **dict.fromkeys((15, 18, 21, 36, 64, 65, 107), (2, 1)),
    **{26: (2, 2), 33: (6, 1), 46: (18, 1)},
}


class Record(NamedTuple):
    """One resource record; `owner` and the names in `rdata` are in uncompressed, lower-case wire format."""

    owner: bytes
    rtype: int
    rclass: int
    ttl: int
    rdata: bytes

    def __str__(self) -> str:
        return f"{name_text(self.owner)} {self.ttl} {class_text(self.rclass)} {type_text(self.rtype)} {rdata_text(self.rtype, self.rdata)}"


class Edns(NamedTuple):
    """The contents of an OPT record (RFC 6891 6.1)."""

    payload: int
    version: int
    flags: int
    options: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Query:
    """A query and its transport. `name` is in wire format, in the letter case to send; `payload` None means no EDNS.

    `raw` overrides the encoded message. An unusual or malformed query has a description in `oddity`, its `acceptable` outcomes
    (RCODEs or "silence") and the RFC that determines them.
    """

    name: bytes
    qtype: int
    qclass: int = IN
    payload: int | None = None
    dnssec: bool = False
    tcp: bool = False
    raw: bytes | None = None
    oddity: str = ""
    acceptable: frozenset[str] = frozenset()
    rfc: str = ""

    @classmethod
    def from_wire(cls, raw: bytes) -> Query:
        """A captured query, resent unchanged; raises `Malformed` unless it is well-formed and has one question."""
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
    def size_limit(self) -> int:
        """Maximum response size in octets (RFC 1035 4.2.1, RFC 6891 6.2.3)."""
        return 65535 if self.tcp else max(512, self.payload or 512)

    @property
    def size_limit_served(self) -> int:
        """Maximum response size that the compared servers use by default (RFC 9715 3)."""
        return self.size_limit if self.tcp else min(self.size_limit, UDP_SIZE_SERVED)

    def __str__(self) -> str:
        if self.oddity:
            return f"{self.oddity}: {self.wire().hex()} ({'TCP' if self.tcp else 'UDP'})"
        how = "no EDNS" if self.payload is None else f"EDNS {self.payload}" + (" DO" if self.dnssec else "")
        return f"{name_text(self.name)} {class_text(self.qclass)} {type_text(self.qtype)} ({how}, {'TCP' if self.tcp else 'UDP'})"


@dataclass(frozen=True)
class Response:
    """A parsed response: sections are sets without the OPT record, names are lower-case."""

    rcode: int
    flags: int
    opcode: int
    question: bytes
    answer: frozenset[Record]
    authority: frozenset[Record]
    additional: frozenset[Record]
    edns: Edns | None
    size: int
    authority_end: int  # offset of the end of the authority section
    duplicates: int = 0
    wire: bytes = field(default=b"", compare=False, repr=False)

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)

    @property
    def sections(self) -> tuple[frozenset[Record], ...]:
        return self.answer, self.authority, self.additional

    @property
    def records(self) -> frozenset[Record]:
        return self.answer | self.authority | self.additional


def parse(wire: bytes) -> Response:
    """Parses a message; raises `Malformed` for trailing octets, wrong counts or bad compression pointers."""
    if len(wire) < 12:
        raise Malformed(f"only {len(wire)} octets, a header has 12")
    _, flags, questions, *counts = struct.unpack_from(">6H", wire)
    names: dict[int, tuple[bytes, int]] = {}
    at, question, authority_end = 12, b"", 0
    for _ in range(questions):
        name, at = read_name(wire, at, names)
        question += name.lower() + wire[at : at + 4]
        at += 4
    sections: list[frozenset[Record]] = []
    edns_records: list[Edns] = []
    extended = duplicates = 0
    for count in counts:
        authority_end = at
        records, at = read_records(wire, at, count, names)
        for record in [r for r in records if r.rtype == OPT]:
            records.remove(record)
            edns_records.append(read_edns(record))
            extended = record.ttl >> 24 << 4
        unique = frozenset(records)
        duplicates += len(records) - len(unique)
        sections.append(unique)
    if at != len(wire):
        raise Malformed(f"{len(wire) - at} octets after the last record")
    if len(edns_records) > 1:
        raise Malformed("two OPT records")
    edns, rcode = edns_records[0] if edns_records else None, extended | flags & 15
    return Response(rcode, flags & 0x87F0, flags >> 11 & 15, question, *sections, edns, len(wire), authority_end, duplicates, wire)


def read_records(wire: bytes, at: int, count: int, names: dict[int, tuple[bytes, int]]) -> tuple[list[Record], int]:
    """`count` records from offset `at`, and the offset of the octet after them."""
    records = []
    for _ in range(count):
        owner, at = read_name(wire, at, names)
        if at + 10 > len(wire):
            raise Malformed("message ends within a record")
        rtype, rclass, ttl, length = struct.unpack_from(">HHIH", wire, at)
        at += 10
        if at + length > len(wire):
            raise Malformed("message ends within RDATA")
        records.append(Record(owner.lower(), rtype, rclass, ttl, read_rdata(wire, at, length, rtype, names)))
        at += length
    return records, at


def read_rdata(wire: bytes, at: int, length: int, rtype: int, names: dict[int, tuple[bytes, int]]) -> bytes:
    """RDATA with its names uncompressed and lower-cased."""
    if rtype == 35:
        return read_naptr(wire, at, length, names)
    if rtype not in NAMES_IN_RDATA:
        return wire[at : at + length]
    first_name, count = NAMES_IN_RDATA[rtype]
    end, out = at + length, wire[at : at + first_name]
    at += first_name
    for _ in range(count):
        name, at = read_name(wire, at, names)
        out += name.lower()
    if at > end:
        raise Malformed(f"a name exceeds its {type_text(rtype)} RDATA")
    return out + wire[at:end]


def read_naptr(wire: bytes, at: int, length: int, names: dict[int, tuple[bytes, int]]) -> bytes:
    """NAPTR RDATA (RFC 3403 4.1): the name follows three character strings."""
    name_at = at + 4
    for _ in range(3):
        if name_at >= at + length:
            raise Malformed("a string exceeds its NAPTR RDATA")
        name_at += 1 + wire[name_at]
    name, end = read_name(wire, name_at, names)
    if end != at + length:
        raise Malformed("a name does not end its NAPTR RDATA")
    return wire[at:name_at] + name.lower()


def read_edns(record: Record) -> Edns:
    """Decodes an OPT record (RFC 6891 6.1.2, 6.1.3)."""
    options, at = [], 0
    while at + 4 <= len(record.rdata):
        code, length = struct.unpack_from(">HH", record.rdata, at)
        options.append((code, record.rdata[at + 4 : at + 4 + length]))
        at += 4 + length
    if at != len(record.rdata) or record.owner != b"\0":
        raise Malformed("malformed OPT record")
    return Edns(record.rclass, record.ttl >> 16 & 255, record.ttl & 0xFFFF, tuple(options))


def type_text(rtype: int) -> str:
    return dns.rdatatype.to_text(dns.rdatatype.RdataType.make(rtype))


def class_text(rclass: int) -> str:
    return dns.rdataclass.to_text(dns.rdataclass.RdataClass.make(rclass))


@lru_cache(maxsize=1 << 16)
def rdata_text(rtype: int, rdata: bytes) -> str:
    """RDATA in presentation format; in the RFC 3597 5 format if dnspython rejects it."""
    try:
        return rdata_from_wire(rtype, rdata).to_text()
    except (dns.exception.DNSException, ValueError, IndexError):
        return f"\\# {len(rdata)} {rdata.hex()}"


def rdata_from_wire(rtype: int, rdata: bytes) -> dns.rdata.Rdata:
    """RDATA as a dnspython object; raises its errors."""
    return dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.RdataType.make(rtype), rdata, 0, len(rdata))


def rcode_text(rcode: int) -> str:
    text = dns.rcode.to_text(dns.rcode.Rcode.make(rcode))
    return f"RCODE{text}" if text.isdigit() else text
