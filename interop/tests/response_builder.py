"""Builds responses for tests without the code under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dns_numbers import AA, IN, QR
from message import Query, Record
from names import wire_name

Entry = tuple[str, int, bytes] | tuple[str, int, bytes, int] | Record


def answer(
    query: Query,
    answers: Sequence[Entry] = (),
    authority: Sequence[Entry] = (),
    additional: Sequence[Entry] = (),
    flags: int = AA,
    rcode: int = 0,
) -> bytes:
    """The response to a query; entries are records, or owner, type, RDATA and TTL (default 60); EDNS as in the query."""
    sections = [b"".join(map(record, entries)) for entries in (answers, authority, additional)]
    opt = b"" if query.payload is None else b"\0" + struct.pack(">HHIH", 41, 1232, 0x8000 if query.dnssec else 0, 0)
    counts = len(answers), len(authority), len(additional) + bool(opt)
    head = struct.pack(">6H", 0, QR | flags | rcode, 1, *counts)
    return head + query.name + struct.pack(">HH", query.qtype, query.qclass) + b"".join(sections) + opt


def record(entry: Entry) -> bytes:
    if not isinstance(entry, Record):
        owner, rtype, rdata, *rest = entry
        entry = Record(wire_name(owner), rtype, IN, rest[0] if rest else 60, rdata)
    return entry.owner + struct.pack(">HHIH", entry.rtype, IN, entry.ttl, len(entry.rdata)) + entry.rdata
