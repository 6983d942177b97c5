"""Checks each response against the zone file and the RFCs, without comparing it with other servers."""

from __future__ import annotations

from collections.abc import Iterator

from answer_comparison import Reply
from answer_rules import Rule, Violation
from dns_numbers import AA, AAAA, AD, ANY, CNAME, DS, NOERROR, NS, NSEC, NSEC3, NXDOMAIN, QR, RA, RD, RRSIG, SOA, TC, A, Z
from dnssec_validation import Validator, has_dname_above
from message import Query, Record, Response, type_text
from names import ancestors, is_at_or_below, name_text
from zone_set import ZoneSet, covered_type, is_referral


def violations(query: Query, reply: Reply, validator: Validator) -> list[Violation]:
    """The rules that a reply violates. For an unusual query, only the outcome is checked."""
    if query.oddity:
        return check_outcome(query, reply)
    if reply.response is None:
        return [Violation(Rule.MALFORMED, reply.problem) if reply.wire else Violation(Rule.NO_RESPONSE)]
    response, zones = reply.response, validator.zones
    return [
        *check_header(query, response),
        *check_size(query, response),
        *check_rrsets(response, zones),
        *check_ttls(response, zones),
        *check_dnssec_types(query, response),
        *check_referral(response, zones),
        *check_negative(response, zones),
        *validator.violations(query, response),
    ]


def check_outcome(query: Query, reply: Reply) -> list[Violation]:
    if reply.outcome in query.acceptable:
        return []
    return [Violation(Rule.OUTCOME, f"{query.oddity}: {reply.outcome}, not {' or '.join(sorted(query.acceptable))}, RFC {query.rfc}")]


def check_header(query: Query, response: Response) -> Iterator[Violation]:
    sent = query.wire()
    flags = int.from_bytes(sent[2:4])
    if not response.has(QR):
        yield Violation(Rule.FLAGS, "QR is clear")
    if response.flags & RD != flags & RD:
        yield Violation(Rule.FLAGS, "RD is not copied")
    for bit, name in ((RA, "RA"), (Z, "Z"), (AD, "AD")):
        if response.has(bit):
            yield Violation(Rule.FLAGS, f"{name} is set")
    end = 12 + len(query.name) + 4
    if response.wire[12:end] != sent[12:end] or response.wire[4:6] != b"\0\1":
        yield Violation(Rule.QUESTION)
    if (response.edns is not None) != (query.payload is not None):
        yield Violation(Rule.EDNS, "OPT")
    elif response.edns and bool(response.edns.flags & 0x8000) != query.dnssec:
        yield Violation(Rule.EDNS, "DO")


def check_size(query: Query, response: Response) -> Iterator[Violation]:
    if response.size > query.size_limit:
        yield Violation(Rule.SIZE, f"{response.size} of {query.size_limit}")
    if query.tcp and response.has(TC):
        yield Violation(Rule.TC_OVER_TCP)
    if response.duplicates:
        yield Violation(Rule.DUPLICATE_RECORD)


def check_rrsets(response: Response, zones: ZoneSet) -> Iterator[Violation]:
    """RFC 2181 5, 9: every RRset is complete unless TC is set, and every record is in a zone."""
    if response.has(TC):
        return
    for section in response.sections:
        for owner, rtype in {(r.owner, r.rtype) for r in section}:
            if rtype == RRSIG or (rtype == CNAME and has_dname_above(owner, response)):
                continue
            sent = frozenset(r.rdata for r in section if r.owner == owner and r.rtype == rtype)
            if not any(sent == {r.rdata for r in rrset} for rrset in zone_rrsets(owner, rtype, zones)):
                yield Violation(Rule.WRONG_RRSET, f"{name_text(owner)} {type_text(rtype)}")


def check_ttls(response: Response, zones: ZoneSet) -> Iterator[Violation]:
    """RFC 2181 5.2, RFC 4034 3: an RRset and its RRSIGs have one TTL, that of the zone (a synthesized CNAME that of the DNAME, RFC 6672 3.1)."""
    for section in response.sections:
        ttls: dict[tuple[bytes, int], set[int]] = {}
        for record in section:
            ttls.setdefault((record.owner, covered_type(record)), set()).add(record.ttl)
            in_zone = (r.ttl for rrset in zone_rrsets(record.owner, record.rtype, zones) for r in rrset)
            if record.rtype not in (RRSIG, SOA, CNAME) and record.ttl not in in_zone:
                yield Violation(Rule.TTL, f"{name_text(record.owner)} {type_text(record.rtype)}")
        for (owner, rtype), found in ttls.items():
            if len(found) > 1:
                yield Violation(Rule.SIGNATURE_TTL, f"{name_text(owner)} {type_text(rtype)}")


def zone_rrsets(owner: bytes, rtype: int, zones: ZoneSet) -> Iterator[frozenset[Record]]:
    """The RRset in every zone at or above the owner (a parent has NS and glue of its child), or that of a wildcard (RFC 4592 3.3.1)."""
    for zone in (zones.zones[a] for a in ancestors(owner) if a in zones.zones):
        source = zone.source_of_synthesis(owner)
        yield zone.rrset(owner, rtype) or (zone.rrset(source, rtype) if source else frozenset())


def check_dnssec_types(query: Query, response: Response) -> Iterator[Violation]:
    """RFC 3225 3: DNSSEC records are sent only if the query has DO or asks for them."""
    if not query.dnssec and query.qtype not in (RRSIG, NSEC, NSEC3, ANY):
        for rtype in {r.rtype for r in response.records} & {RRSIG, NSEC, NSEC3}:
            yield Violation(Rule.DNSSEC_WITHOUT_DO, type_text(rtype))


def check_referral(response: Response, zones: ZoneSet) -> Iterator[Violation]:
    """RFC 9471 3.1: a referral has all in-domain glue, or TC."""
    if not is_referral(response) or response.has(TC):
        return
    for cut, nameserver in sorted((r.owner, r.rdata) for r in response.authority if r.rtype == NS):
        zone = zones.zone_of(cut, DS)
        for rtype in (A, AAAA):
            if zone and is_at_or_below(nameserver, cut) and zone.rrset(nameserver, rtype) - response.additional:
                yield Violation(Rule.MISSING_GLUE, f"{name_text(nameserver)} {type_text(rtype)}")


def check_negative(response: Response, zones: ZoneSet) -> Iterator[Violation]:
    """RFC 2308 3: a negative response has the SOA, with the lower of its TTL and its MINIMUM."""
    soas = [r for r in response.authority if r.rtype == SOA]
    for soa in soas:
        if zone := zones.zones.get(soa.owner):
            expected = min(zone.soa.ttl, int.from_bytes(zone.soa.rdata[-4:]))
            if soa.ttl != expected:
                yield Violation(Rule.SOA_TTL, f"{soa.ttl}, not {expected}")
    empty = response.rcode == NOERROR and response.has(AA) and not response.answer
    if not soas and not response.has(TC) and (empty or response.rcode == NXDOMAIN):
        yield Violation(Rule.MISSING_SOA)
