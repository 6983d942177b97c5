"""What every answer must keep to, whoever gives it: checked against the zone text, with no other server to compare with."""

from __future__ import annotations

from collections.abc import Iterator

from compare import Reply
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
    ancestors,
    is_below,
    name_text,
    type_text,
)
from proofs import Validator, dname_for
from zonedata import ZoneData
from zoneset import ZoneSet, covered, is_referral


def faults(question: Question, reply: Reply, validator: Validator) -> list[str]:
    """The laws that a reply breaks, as sentences that end with the RFC. An odd question has its right outcomes with it, and no other law."""
    if question.note:
        wrong = reply.outcome not in question.right
        return [f"{question.note}: {reply.outcome}, not {' or '.join(sorted(question.right))} (RFC {question.rfc})"] if wrong else []
    if reply.message is None:
        return [f"ill-formed answer: {reply.problem} (RFC 1035 4.1)" if reply.wire else "no answer (RFC 8906 3.1)"]
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


def of_header(question: Question, message: Answer) -> Iterator[str]:
    sent = question.wire()
    flags = int.from_bytes(sent[2:4])
    if not message.has(QR):
        yield "QR is clear (RFC 1035 4.1.1)"
    if message.flags & RD != flags & RD:
        yield "RD is not copied (RFC 1035 4.1.1)"
    for bit, name in ((RA, "RA"), (Z, "Z"), (AD, "AD")):
        if message.has(bit):
            yield f"{name} is set (RFC 1035 4.1.1, RFC 4035 3.1.6)"
    end = 12 + len(question.name) + 4
    if message.wire[12:end] != sent[12:end] or message.wire[4:6] != b"\0\1":
        yield "the question does not come back octet for octet (RFC 1035 4.1.1, RFC 5452 9.1)"
    if (message.edns is not None) != (question.payload is not None):
        yield "OPT in one of query and answer only (RFC 6891 6.1.1)"
    elif message.edns and bool(message.edns.flags & 0x8000) != question.dnssec:
        yield "DO is not copied (RFC 3225 3)"


def of_size(question: Question, message: Answer) -> Iterator[str]:
    if message.size > question.room:
        yield f"{message.size} octets where the client has room for {question.room} (RFC 6891 6.2.3)"
    if question.tcp and message.has(TC):
        yield "TC over TCP (RFC 2181 9)"
    if message.doubled:
        yield f"{message.doubled} records twice in a section (RFC 2181 5)"


def of_sets(message: Answer, zones: ZoneSet) -> Iterator[str]:
    """RFC 2181 5, 9: sets come whole, unless TC says that they do not; nothing comes that the zones do not hold."""
    if message.has(TC):
        return
    for section in (message.answer, message.authority, message.additional):
        for owner, rtype in {(r.owner, r.rtype) for r in section}:
            if rtype == RRSIG or (rtype == CNAME and dname_for(owner, message)):
                continue
            sent = frozenset(r.rdata for r in section if r.owner == owner and r.rtype == rtype)
            if not any(sent == held for held in sets_held(owner, rtype, zones)):
                yield f"{name_text(owner)} {type_text(rtype)} is not the set of the zone (RFC 2181 5)"


def of_ttls(message: Answer, zones: ZoneSet) -> Iterator[str]:
    """RFC 2181 5.2: one TTL a set, the zone's (for synthesized aliases the DNAME's, RFC 6672 3.1); RFC 4034 3: its signature has the same."""
    for section in (message.answer, message.authority, message.additional):
        ttls: dict[tuple[bytes, int], set[int]] = {}
        for record in section:
            ttls.setdefault((record.owner, covered(record)), set()).add(record.ttl)
            if record.rtype not in (RRSIG, SOA, CNAME) and record.ttl not in ttls_held(record, zones):
                yield f"{name_text(record.owner)} {type_text(record.rtype)} with a TTL that the zone does not have (RFC 2181 5.2)"
        for (owner, rtype), found in ttls.items():
            if len(found) > 1:
                yield f"{name_text(owner)} {type_text(rtype)} and its signatures have several TTLs (RFC 4034 3)"


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


def of_dnssec_types(question: Question, message: Answer) -> Iterator[str]:
    """RFC 3225 3: records of DNSSEC only for those who ask for them."""
    if not question.dnssec and question.qtype not in (RRSIG, NSEC, NSEC3, ANY):
        for rtype in {r.rtype for r in message.records} & {RRSIG, NSEC, NSEC3}:
            yield f"{type_text(rtype)} without DO (RFC 3225 3)"


def of_referral(message: Answer, zones: ZoneSet) -> Iterator[str]:
    """RFC 9471 2.1: all addresses of in-domain name servers, or TC."""
    if not is_referral(message) or message.has(TC):
        return
    for cut, server in sorted((r.owner, r.rdata) for r in message.authority if r.rtype == NS):
        zone = zones.zone_of(cut, DS)
        for rtype in (A, AAAA):
            if zone and is_below(server, cut) and zone.set_of(server, rtype) - message.additional:
                yield f"{type_text(rtype)} of in-domain server {name_text(server)} missing without TC (RFC 9471 2.1)"


def of_negative(message: Answer, zones: ZoneSet) -> Iterator[str]:
    """RFC 2308 3: a negative answer carries the SOA with the lesser of its TTL and its minimum."""
    soas = [r for r in message.authority if r.rtype == SOA]
    for soa in soas:
        if zone := zones.zones.get(soa.owner):
            wanted = min(zone.soa.ttl, int.from_bytes(zone.soa.rdata[-4:]))
            if soa.ttl != wanted:
                yield f"SOA with TTL {soa.ttl}, not {wanted} (RFC 2308 3)"
    empty = message.rcode == NOERROR and message.has(AA) and not message.answer
    if not soas and not message.has(TC) and (empty or message.rcode == NXDOMAIN):
        yield "negative answer without SOA (RFC 2308 2)"
