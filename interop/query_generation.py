"""Generates the well-formed queries: from a zone, from query logs and from packet captures."""

from __future__ import annotations

import lzma
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from zonda_lab.zones import captures

from dns_numbers import AAAA, ANY, CNAME, DNAME, DNSKEY, DS, IN, MX, NS, NSEC, NSEC3, NSEC3PARAM, RRSIG, SOA, TXT, A
from message import Query
from names import Malformed, from_labels, labels, parent, wire_name
from zone_data import ZoneData

# Queried at every existing name: the types that a lookup treats specially, and one that no name has.
TYPES = (A, NS, CNAME, SOA, TXT, DNAME, DS, RRSIG, NSEC, ANY, 65399)
# Queried at names that do not exist, where the type matters only for DS (RFC 4035 3.1.4.1), NS and ANY.
TYPES_FOR_ABSENT_NAMES = (A, DS, NS, ANY)
# Queried at every apex in addition.
APEX_TYPES = (MX, AAAA, DNSKEY, NSEC3PARAM, NSEC3, 65280)
# UDP payload size (None: no EDNS) and DO. RFC 6891 6.2.3 treats a size below 512 as 512.
EDNS_FORMS = ((None, False), (300, False), (512, False), (1232, False), (4096, False), (512, True), (1232, True), (4096, True))
FORMS_FOR_ABSENT_NAMES = ((None, False), (512, True), (4096, True))


def queries_for_zone(zone: ZoneData) -> list[Query]:
    """All queries for a small zone: every existing name and names near it, in all EDNS forms."""
    existing = representative_names(zone)
    wanted = {(name, t) for name in existing for t in (*TYPES, *zone.owners.get(name, ()))} | {(zone.apex, t) for t in APEX_TYPES}
    out = [Query(mixed_case(name, t), t, IN, *form) for name, t in sorted(wanted) for form in EDNS_FORMS]
    absent = sorted({name for owner in existing for name in nearby_absent_names(owner)} - zone.names)
    return out + [Query(mixed_case(name, t), t, IN, *form) for name in absent for t in TYPES_FOR_ABSENT_NAMES for form in FORMS_FOR_ABSENT_NAMES]


def representative_names(zone: ZoneData) -> list[bytes]:
    """The names of a zone; of many that differ only in a number, or of a deep chain of empty non-terminals, every 16th."""
    similar: dict[tuple[bytes, bytes], list[bytes]] = {}
    for name in sorted(zone.names):
        stem = labels(name)[0].rstrip(b"0123456789") if name != b"\0" else b""
        is_deep = name not in zone.owners and len(labels(name)) > 16
        similar.setdefault((b"", b"") if is_deep else (stem, parent(name) if stem else name), []).append(name)
    return [name for names in similar.values() for name in (names[::16] if len(names) > 16 else names)]


def nearby_absent_names(owner: bytes) -> Iterator[bytes]:
    """Names near `owner` that usually do not exist: children, a grandchild, a wildcard, neighbours in canonical order."""
    parts = labels(owner)
    children = [[b"nx"], [b"*"], [b"nx", b"nx"], [b"hop"]]
    siblings = [[parts[0] + b"0"], [parts[0][:-1]], [b"zzz"], [b"\0"]] if parts else []
    for new in children:
        yield from valid_name(new + parts)
    for new in siblings:
        yield from valid_name(new + parts[1:])


def valid_name(parts: list[bytes]) -> Iterator[bytes]:
    """The name with these labels, if it is valid (RFC 1035 2.3.4)."""
    if all(0 < len(p) < 64 for p in parts) and len(name := from_labels(parts)) <= 255:
        yield name


def mixed_case(name: bytes, salt: int) -> bytes:
    """The name in mixed case, as resolvers with 0x20 send it; deterministic."""
    rng = random.Random(name + bytes([salt & 255]))

    def flip_case(octet: int) -> int:
        return octet ^ 0x20 if 65 <= octet & 0xDF <= 90 and rng.random() < 0.5 else octet

    return from_labels([bytes(map(flip_case, part)) for part in labels(name)])


def sample(queries: list[Query], share: float) -> list[Query]:
    """A deterministic sample of about this share of the queries."""
    rng = random.Random(1)
    return [q for q in queries if rng.random() < share]


def over_tcp(queries: Iterable[Query]) -> list[Query]:
    return [replace(q, tcp=True) for q in queries]


def queries_for_delegations(zone: ZoneData, share: float) -> list[Query]:
    """The queries for a large delegation zone: its apex, and for a share of its cuts the cut, a name below it and a nearby name."""
    rng = random.Random(2)
    out = [Query(zone.apex, t, IN, *form) for t in (*TYPES, *APEX_TYPES) for form in EDNS_FORMS]
    for cut in sorted(owner for owner, types in zone.owners.items() if NS in types and owner != zone.apex):
        if rng.random() < share:
            child = from_labels([b"www", *labels(cut)])
            sibling = from_labels([labels(cut)[0][:60] + b"-0", *labels(cut)[1:]])
            out += [
                Query(name, t, IN, *form)
                for name, t in ((cut, A), (cut, DS), (cut, NS), (child, A), (sibling, A))
                for form in (EDNS_FORMS[0], EDNS_FORMS[3], EDNS_FORMS[6])
            ]
    return out


def queries_from_log(file: Path, payload: int | None = None, dnssec: bool = False) -> list[Query]:
    """The distinct queries of a log with lines `query NAME CLASS TYPE`, in order; other lines are ignored."""
    classes, types = {"IN": 1, "CH": 3, "ANY": 255}, {"A": 1, "MD": 3, "ANY": 255}
    seen: dict[Query, None] = {}
    with lzma.open(file, "rt", encoding="latin-1") as lines:
        for line in lines:
            if match := re.fullmatch(r"query (\S+) (\S+) (\S+)\s*", line):
                name, klass, kind = match.groups()
                query = Query(wire_name(name), number(kind, types, "TYPE"), number(klass, classes, "CLASS"), payload, dnssec)
                seen[with_acceptable_outcomes(query)] = None
    return list(seen)


def number(text: str, known: dict[str, int], prefix: str) -> int:
    return known[text] if text in known else int(text.removeprefix(prefix))


def queries_from_capture(file: Path) -> list[Query]:
    """The distinct UDP queries of a capture, in order, with the ID cleared."""
    to_servers = (payload for _, port, payload in captures.datagrams(file) if port == 53)
    seen = dict.fromkeys(b"\0\0" + payload[2:] for payload in to_servers if len(payload) >= 12 and not payload[2] & 0x80)
    return [captured_query(raw) for raw in seen]


def captured_query(raw: bytes) -> Query:
    """The query of a captured message, which may be malformed."""
    try:
        return with_acceptable_outcomes(Query.from_wire(raw))
    except Malformed as error:
        return Query(b"\0", 0, raw=raw, oddity=f"captured query ({error})", acceptable=frozenset({"FORMERR", "silence"}), rfc="1035 4.1.1")


def with_acceptable_outcomes(query: Query) -> Query:
    """The query; with its acceptable outcomes if its opcode is not QUERY or its class not IN (see malformed_queries.py)."""
    opcode = query.wire()[2] >> 3 & 15
    if opcode == 4:
        oddity, acceptable, rfc = f"opcode {opcode}", {"NOTAUTH", "REFUSED", "FORMERR"}, "1996 3.7, 3.10, 3.11"
    elif opcode == 5:
        # The captures were made at servers of the root, and are sent to such servers; no update of it is allowed.
        acceptable, rfc = ({"REFUSED"}, "2136 3.3") if query.name == b"\0" else ({"NOTAUTH"}, "2136 3.1.2")
        oddity = f"opcode {opcode}"
    elif opcode:
        oddity, acceptable, rfc = f"opcode {opcode}", {"NOTIMP"}, "8906 3.1.4"
    elif query.qclass != IN:
        oddity, acceptable, rfc = f"class {query.qclass}", {"NOERROR", "REFUSED", "NOTIMP", "FORMERR"}, "1035 3.2.5, 4892 2"
    else:
        return query
    return replace(query, raw=query.wire(), oddity=oddity, acceptable=frozenset(acceptable), rfc=rfc)
