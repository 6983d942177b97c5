"""The well-formed questions: made from a zone's text so that none of its corners is left out, or read from logs and captures."""

from __future__ import annotations

import lzma
import random
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from message import AAAA, ANY, CNAME, DNAME, DNSKEY, DS, IN, MX, NS, NSEC, NSEC3, NSEC3PARAM, RRSIG, SOA, TXT, A, Question
from names import Malformed, from_labels, labels, parent, wire_name
from zonedata import ZoneData

# Asked of every name that exists in some way; the types that a lookup treats apart, and one that nothing has.
TYPES = (A, NS, CNAME, SOA, TXT, DNAME, DS, RRSIG, NSEC, ANY, 65399)
# Asked of names that do not exist, where the type matters only for DS (RFC 4035 3.1.4.1), NS and the shape of ANY.
TYPES_OF_NOTHING = (A, DS, NS, ANY)
# Asked at every apex besides.
TYPES_OF_APEX = (MX, AAAA, DNSKEY, NSEC3PARAM, NSEC3, 65280)
# No EDNS; the least payload; one below it, which RFC 6891 6.2.3 raises; the usual one; and with DNSSEC records.
FORMS = ((None, False), (300, False), (512, False), (1232, False), (4096, False), (512, True), (1232, True), (4096, True))
FORMS_OF_NOTHING = ((None, False), (512, True), (4096, True))


def of_zone(zone: ZoneData) -> list[Question]:
    """Every question worth asking about a zone, in all forms."""
    existing = telling(zone)
    asked = {(name, t) for name in existing for t in (*TYPES, *zone.owners.get(name, ()))} | {(zone.apex, t) for t in TYPES_OF_APEX}
    out = [Question(recased(name, t), t, IN, *form) for name, t in sorted(asked) for form in FORMS]
    absent = sorted({name for owner in existing for name in strangers(owner)} - zone.names)
    return out + [Question(recased(name, t), t, IN, *form) for name in absent for t in TYPES_OF_NOTHING for form in FORMS_OF_NOTHING]


def telling(zone: ZoneData) -> list[bytes]:
    """The names of a zone; of many alike, which differ in their number or are empty in a row, every sixteenth."""
    alike: dict[tuple[bytes, bytes], list[bytes]] = {}
    for name in sorted(zone.names):
        stem = labels(name)[0].rstrip(b"0123456789") if name != b"\0" else b""
        is_deep = name not in zone.owners and len(labels(name)) > 16
        alike.setdefault((b"", b"") if is_deep else (stem, parent(name) if stem else name), []).append(name)
    return [name for names in alike.values() for name in (names[::16] if len(names) > 16 else names)]


def strangers(owner: bytes) -> Iterator[bytes]:
    """Names near `owner` as far as they have room: children, a grandchild, a wildcard, the neighbours in canonical order."""
    parts = labels(owner)
    candidates = [[b"nx"], [b"*"], [b"nx", b"nx"], [b"hop"]]
    beside = [[parts[0] + b"0"], [parts[0][:-1]], [b"zzz"], [b"\0"]] if parts else []
    for new in candidates:
        yield from fitting(new + parts)
    for new in beside:
        yield from fitting(new + parts[1:])


def fitting(parts: list[bytes]) -> Iterator[bytes]:
    """The name of these labels, if it is one (RFC 1035 2.3.4)."""
    if all(0 < len(p) < 64 for p in parts) and len(name := from_labels(parts)) <= 255:
        yield name


def recased(name: bytes, salt: int) -> bytes:
    """The name in mixed case, as resolvers send it that use 0x20; the same input gives the same case."""
    chooser = random.Random(name + bytes([salt & 255]))

    def recased_octet(octet: int) -> int:
        return octet ^ 0x20 if 65 <= octet & 0xDF <= 90 and chooser.random() < 0.5 else octet

    return from_labels([bytes(map(recased_octet, part)) for part in labels(name)])


def sample(questions: list[Question], share: float) -> list[Question]:
    """A repeatable selection of about this share of the questions."""
    chooser = random.Random(1)
    return [q for q in questions if chooser.random() < share]


def over_tcp(questions: Iterable[Question]) -> list[Question]:
    return [replace(q, tcp=True) for q in questions]


def of_delegations(zone: ZoneData, share: float) -> list[Question]:
    """For a large zone of delegations: the apex, a share of its cuts, a name below and one beside each."""
    chooser = random.Random(2)
    out = [Question(zone.apex, t, IN, *form) for t in (*TYPES, *TYPES_OF_APEX) for form in FORMS]
    for cut in sorted(owner for owner, types in zone.owners.items() if NS in types and owner != zone.apex):
        if chooser.random() < share:
            below = from_labels([b"www", *labels(cut)])
            beside = from_labels([labels(cut)[0][:60] + b"-0", *labels(cut)[1:]])
            out += [
                Question(name, t, IN, *form)
                for name, t in ((cut, A), (cut, DS), (cut, NS), (below, A), (beside, A))
                for form in (FORMS[0], FORMS[3], FORMS[6])
            ]
    return out


def of_root_log(file: Path, payload: int | None = None, dnssec: bool = False) -> list[Question]:
    """The questions of a log with lines `query NAME CLASS TYPE`, each once, in order; lines of other kinds are passed over."""
    classes, types = {"IN": 1, "CH": 3, "ANY": 255}, {"A": 1, "MD": 3, "ANY": 255}
    seen: dict[Question, None] = {}
    with lzma.open(file, "rt", encoding="latin-1") as lines:
        for line in lines:
            if match := re.fullmatch(r"query (\S+) (\S+) (\S+)\s*", line):
                name, klass, kind = match.groups()
                seen[ruled(Question(wire_name(name), number(kind, types, "TYPE"), number(klass, classes, "CLASS"), payload, dnssec))] = None
    return list(seen)


def number(text: str, known: dict[str, int], prefix: str) -> int:
    return known[text] if text in known else int(text.removeprefix(prefix))


def of_capture(file: Path) -> list[Question]:
    """The UDP queries of a pcapng capture (xz-compressed) as they were sent, ID cleared, each once, in order."""
    seen: dict[bytes, None] = {}
    for packet in packets(lzma.decompress(file.read_bytes())):
        payload = udp_payload(packet)
        if payload is not None and len(payload) >= 12 and not payload[2] & 0x80:
            seen[b"\0\0" + payload[2:]] = None
    return [captured(raw) for raw in seen]


def captured(raw: bytes) -> Question:
    """The question of a captured query, which may be ill-formed."""
    try:
        return ruled(Question.from_wire(raw))
    except Malformed as error:
        return Question(b"\0", 0, raw=raw, note=f"captured ({error})", right=frozenset({"FORMERR", "silence"}), rfc="1035 4.1.1")


def ruled(question: Question) -> Question:
    """The question; if it is of another opcode or class, as an odd one with its right outcomes (see malformed.py)."""
    opcode = question.wire()[2] >> 3 & 15
    if opcode in (4, 5):
        note, right, rfc = f"opcode {opcode}", {"NOTAUTH"}, "1996, 2136 3.1.2"
    elif opcode:
        note, right, rfc = f"opcode {opcode}", {"NOTIMP"}, "8906 3.1.4"
    elif question.qclass != IN:
        note, right, rfc = f"class {question.qclass}", {"NOERROR", "REFUSED", "NOTIMP", "FORMERR"}, "1035 3.2.5, 4892 2"
    else:
        return question
    return replace(question, raw=question.wire(), note=note, right=frozenset(right), rfc=rfc)


def packets(capture: bytes) -> Iterator[bytes]:
    """The frames of a little-endian pcapng file (draft-ietf-opsawg-pcapng 4.3: enhanced packet blocks)."""
    at = 0
    while at + 12 <= len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        if kind == 6:
            held = struct.unpack_from("<I", capture, at + 20)[0]
            yield capture[at + 28 : at + 28 + held]
        at += length


def udp_payload(frame: bytes) -> bytes | None:
    """What an Ethernet frame carries to UDP port 53 over IPv4 (unfragmented) or IPv6, None for anything else."""
    kind, ip = struct.unpack_from(">H", frame, 12)[0], frame[14:]
    if kind == 0x8100:
        kind, ip = struct.unpack_from(">H", frame, 16)[0], frame[18:]
    if kind == 0x0800 and ip[9] == 17 and not struct.unpack_from(">H", ip, 6)[0] & 0x3FFF:
        datagram = ip[(ip[0] & 15) * 4 :]
    elif kind == 0x86DD and ip[6] == 17:
        datagram = ip[40:]
    else:
        return None
    _, port, length = struct.unpack_from(">HHH", datagram)
    return datagram[8:length] if port == 53 else None
