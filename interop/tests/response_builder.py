"""Builds responses for tests without the code under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dns_numbers import AA, IN, QR
from message import Query
from names import wire_name

Entry = tuple[str, int, bytes] | tuple[str, int, bytes, int]


def answer(
    query: Query,
    answers: Sequence[Entry] = (),
    authority: Sequence[Entry] = (),
    additional: Sequence[Entry] = (),
    flags: int = AA,
    rcode: int = 0,
) -> bytes:
    """The response to a query; entries are owner, type, RDATA and TTL (default 60); EDNS as in the query."""
    sections = [b"".join(map(record, entries)) for entries in (answers, authority, additional)]
    opt = b"" if query.payload is None else b"\0" + struct.pack(">HHIH", 41, 1232, 0x8000 if query.dnssec else 0, 0)
    counts = len(answers), len(authority), len(additional) + bool(opt)
    head = struct.pack(">6H", 0, QR | flags | rcode, 1, *counts)
    return head + query.name + struct.pack(">HH", query.qtype, query.qclass) + b"".join(sections) + opt


def record(entry: Entry) -> bytes:
    owner, rtype, rdata, *rest = entry
    ttl = rest[0] if rest else 60
    return wire_name(owner) + struct.pack(">HHIH", rtype, IN, ttl, len(rdata)) + rdata
