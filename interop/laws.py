"""What every answer must keep to, whoever gives it: checked against the zone text, with no other server to compare with."""

from __future__ import annotations

from collections.abc import Iterator

from compare import Reply
from faults import Fault, Rule
from message import (
    AA,
    AAAA,
    AD,
    ANY,
    CNAME,
    DS,
    NOERROR,
    NS,
    NSEC,
    NSEC3,
    NXDOMAIN,
    QR,
    RA,
    RD,
    RRSIG,
    SOA,
    TC,
    A,
    Answer,
    Question,
    Record,
    Z,
    type_text,
)
from names import ancestors, is_below, name_text
from proofs import Validator, dname_for
from zonedata import ZoneData
from zoneset import ZoneSet, covered, is_referral


def faults(question: Question, reply: Reply, validator: Validator) -> list[Fault]:
    """The rules that a reply breaks. An odd question has its right outcomes with it, and no other law."""
    if question.note:
        return of_ruling(question, reply)
    if reply.message is None:
        return [Fault(Rule.MALFORMED, reply.problem) if reply.wire else Fault(Rule.SILENT)]
    message, zones = reply.message, validator.zones
    return [
        *of_header(question, message),
        *of_size(question, message),
        *of_sets(message, zones),
        *of_ttls(message, zones),
        *of_dnssec_types(question, message),
        *of_referral(message, zones),
        *of_negative(message, zones),
        *validator.faults(question, message),
    ]


def of_ruling(question: Question, reply: Reply) -> list[Fault]:
    if reply.outcome in question.right:
        return []
    return [Fault(Rule.RULING, f"{question.note}: {reply.outcome}, not {' or '.join(sorted(question.right))}, RFC {question.rfc}")]


def of_header(question: Question, message: Answer) -> Iterator[Fault]:
    sent = question.wire()
    flags = int.from_bytes(sent[2:4])
    if not message.has(QR):
        yield Fault(Rule.FLAGS, "QR is clear")
    if message.flags & RD != flags & RD:
        yield Fault(Rule.FLAGS, "RD is not copied")
    for bit, name in ((RA, "RA"), (Z, "Z"), (AD, "AD")):
        if message.has(bit):
            yield Fault(Rule.FLAGS, f"{name} is set")
    end = 12 + len(question.name) + 4
    if message.wire[12:end] != sent[12:end] or message.wire[4:6] != b"\0\1":
        yield Fault(Rule.QUESTION)
    if (message.edns is not None) != (question.payload is not None):
        yield Fault(Rule.EDNS, "OPT")
    elif message.edns and bool(message.edns.flags & 0x8000) != question.dnssec:
        yield Fault(Rule.EDNS, "DO")


def of_size(question: Question, message: Answer) -> Iterator[Fault]:
    if message.size > question.room:
        yield Fault(Rule.SIZE, f"{message.size} of {question.room}")
    if question.tcp and message.has(TC):
        yield Fault(Rule.TC_OVER_TCP)
    if message.doubled:
        yield Fault(Rule.TWICE)


def of_sets(message: Answer, zones: ZoneSet) -> Iterator[Fault]:
    """RFC 2181 5, 9: sets come whole, unless TC says that they do not; nothing comes that the zones do not hold."""
    if message.has(TC):
        return
    for section in (message.answer, message.authority, message.additional):
        for owner, rtype in {(r.owner, r.rtype) for r in section}:
            if rtype == RRSIG or (rtype == CNAME and dname_for(owner, message)):
                continue
            sent = frozenset(r.rdata for r in section if r.owner == owner and r.rtype == rtype)
            if not any(sent == held for held in sets_held(owner, rtype, zones)):
                yield Fault(Rule.NOT_THE_SET, f"{name_text(owner)} {type_text(rtype)}")


def of_ttls(message: Answer, zones: ZoneSet) -> Iterator[Fault]:
    """RFC 2181 5.2: one TTL a set, the zone's (for synthesized aliases the DNAME's, RFC 6672 3.1); RFC 4034 3: its signature has the same."""
    for section in (message.answer, message.authority, message.additional):
        ttls: dict[tuple[bytes, int], set[int]] = {}
        for record in section:
            ttls.setdefault((record.owner, covered(record)), set()).add(record.ttl)
            if record.rtype not in (RRSIG, SOA, CNAME) and record.ttl not in ttls_held(record, zones):
                yield Fault(Rule.TTL, f"{name_text(record.owner)} {type_text(record.rtype)}")
        for (owner, rtype), found in ttls.items():
            if len(found) > 1:
                yield Fault(Rule.SIGNATURE_TTL, f"{name_text(owner)} {type_text(rtype)}")


def ttls_held(record: Record, zones: ZoneSet) -> set[int]:
    """The TTLs that the zones above a record give for its set."""
    return {
        r.ttl
        for a in ancestors(record.owner)
        if (zone := zones.zones.get(a))
        for r in zone.set_of(record.owner, record.rtype) or wildcard_set(record.owner, record.rtype, zone)
    }


def sets_held(owner: bytes, rtype: int, zones: ZoneSet) -> Iterator[frozenset[bytes]]:
    """The data that a zone gives for a name and type: of every zone above it, since a parent holds NS and glue of its child; wildcards included."""
    for zone in (zones.zones[a] for a in ancestors(owner) if a in zones.zones):
        yield frozenset(r.rdata for r in (zone.set_of(owner, rtype) or wildcard_set(owner, rtype, zone)))


def wildcard_set(owner: bytes, rtype: int, zone: ZoneData) -> frozenset[Record]:
    """The set of the wildcard that answers for a name which does not exist (RFC 4592 3.3.1)."""
    encloser = next((a for a in ancestors(owner) if a in zone.names), owner)
    return frozenset() if encloser == owner else zone.set_of(b"\1*" + encloser, rtype)


def of_dnssec_types(question: Question, message: Answer) -> Iterator[Fault]:
    """RFC 3225 3: records of DNSSEC only for those who ask for them."""
    if not question.dnssec and question.qtype not in (RRSIG, NSEC, NSEC3, ANY):
        for rtype in {r.rtype for r in message.records} & {RRSIG, NSEC, NSEC3}:
            yield Fault(Rule.DNSSEC_WITHOUT_DO, type_text(rtype))


def of_referral(message: Answer, zones: ZoneSet) -> Iterator[Fault]:
    """RFC 9471 3.1: all addresses of in-domain name servers, or TC."""
    if not is_referral(message) or message.has(TC):
        return
    for cut, server in sorted((r.owner, r.rdata) for r in message.authority if r.rtype == NS):
        zone = zones.zone_of(cut, DS)
        for rtype in (A, AAAA):
            if zone and is_below(server, cut) and zone.set_of(server, rtype) - message.additional:
                yield Fault(Rule.GLUE, f"{name_text(server)} {type_text(rtype)}")


def of_negative(message: Answer, zones: ZoneSet) -> Iterator[Fault]:
    """RFC 2308 3: a negative answer carries the SOA with the lesser of its TTL and its minimum."""
    soas = [r for r in message.authority if r.rtype == SOA]
    for soa in soas:
        if zone := zones.zones.get(soa.owner):
            wanted = min(zone.soa.ttl, int.from_bytes(zone.soa.rdata[-4:]))
            if soa.ttl != wanted:
                yield Fault(Rule.SOA_TTL, f"{soa.ttl}, not {wanted}")
    empty = message.rcode == NOERROR and message.has(AA) and not message.answer
    if not soas and not message.has(TC) and (empty or message.rcode == NXDOMAIN):
        yield Fault(Rule.NO_SOA)
