"""The known differences between servers: how to recognize each, which RFC decides, and which servers deviate.

A difference is explained if entries of `KNOWN_DIFFERENCES` cover all its fields. An entry with `excused` servers applies only if one
of them is `theirs`, so the subject must answer as the others do. An entry without them applies to all: no RFC decides.
The rulings are in docs/disputed-answers.md. A new entry must cite an RFC that decides, or that is silent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from answer_comparison import SECTIONS, Difference, section_of
from answer_rules import PROOF_RULES, Rule
from dns_numbers import AA, ANY, APL, CNAME, DNAME, DS, NOERROR, NS, NSEC, NXDOMAIN, RRSIG, SERVFAIL, TC, YXDOMAIN
from message import Record, Response
from names import ancestors
from zone_set import ZoneSet, alias_chain, ends_in_referral, is_denial

Predicate = Callable[[Difference, ZoneSet], bool]
PEERS = "nsd knot bind"
# The fields that depend on the lookup. Few entries may cover RCODE or AA, so these are named separately.
SECTION_FIELDS = " ".join(SECTIONS)
CONTENTS = SECTION_FIELDS + " tc duplicates"
LOOKUP = CONTENTS + " rcode"
SEE_QUERIES = "see malformed_queries.py"


@dataclass(frozen=True)
class KnownDifference:
    """One class of differences. `matches` gets an excused server as `theirs`; without excused servers, both orders are tried."""

    name: str
    rfc: str
    ruling: str
    fields: frozenset[str]
    matches: Predicate
    excused: frozenset[str]

    def explained_fields(self, difference: Difference, zones: ZoneSet) -> frozenset[str]:
        """The fields of the difference that this entry explains."""
        common = self.fields & difference.fields
        if common and any(self.matches(d, zones) for d in self.orientations(difference)):
            return common
        return frozenset()

    def orientations(self, difference: Difference) -> list[Difference]:
        """The difference, and the swapped one, in which `theirs` is excused; the subject never is."""
        both = [difference, difference.swapped()]
        return both if not self.excused else [d for d in both if d.theirs.server in self.excused]


def known(name: str, rfc: str, ruling: str, fields: str, matches: Predicate, excused: str = "") -> KnownDifference:
    """An entry of the table; `fields` and `excused` are words separated by blanks."""
    return KnownDifference(name, rfc, ruling, frozenset(fields.split()), matches, frozenset(excused.split()))


def explain(difference: Difference, zones: ZoneSet, table: list[KnownDifference]) -> tuple[list[KnownDifference], frozenset[str]]:
    """The entries that explain a difference, and the fields left unexplained."""
    unexplained, found = difference.fields, []
    for candidate in table:
        if covered := candidate.explained_fields(difference, zones) & unexplained:
            unexplained -= covered
            found.append(candidate)
        if not unexplained:
            break
    return found, unexplained


# --- Predicates on the query and both responses; both servers respond, or only the field `outcome` would differ


def asks(*qtypes: int) -> Predicate:
    return lambda d, _: d.query.qtype in qtypes


def always(_: Difference, __: ZoneSet) -> bool:
    return True


def alias_leaves_zone(d: Difference, zones: ZoneSet) -> bool:
    """An alias target is in another zone of the server, or at or below a cut of the same zone."""
    first, *rest = max(alias_chain(d.query, d.our_response), alias_chain(d.query, d.their_response), key=len)
    home = zones.zone_of(first, d.query.qtype)
    return any(zones.zone_of(name, d.query.qtype) is not home or (home is not None and home.cut_above(name)) for name in rest)


def stops_at_zone_boundary(d: Difference, zones: ZoneSet) -> bool:
    """Their alias chain ends at the zone boundary; ours continues or ends there too."""
    return alias_leaves_zone(d, zones) and not d.only_theirs("answer")


def ds_past_alias(d: Difference, zones: ZoneSet) -> bool:
    return d.query.qtype == DS and alias_leaves_zone(d, zones)


def rrsig_at_alias(d: Difference, _: ZoneSet) -> bool:
    return d.query.qtype == RRSIG and any(r.rtype == CNAME for r in d.our_response.answer | d.their_response.answer)


def alias_loops(d: Difference, _: ZoneSet) -> bool:
    """The aliases form a loop, or a DNAME rewrites a name to one below itself."""
    return any(has_alias_loop(response) for response in (d.our_response, d.their_response))


def has_alias_loop(response: Response) -> bool:
    aliases = {r.owner: r.rdata for r in response.answer if r.rtype == CNAME}
    dnames = {r.owner: r.rdata for r in response.answer if r.rtype == DNAME}
    grows = any(owner in ancestors(target) for owner, target in dnames.items())
    loops = any(r.rtype == DNAME and r.owner in ancestors(target) for r in response.answer for target in dnames.values())
    return grows or (loops and len(aliases) > 1) or any(revisits(aliases, name) for name in aliases)


def revisits(aliases: dict[bytes, bytes], start: bytes) -> bool:
    """Whether following the aliases from `start` visits a name twice."""
    seen = set()
    while start in aliases:
        if start in seen:
            return True
        seen.add(start)
        start = aliases[start]
    return False


def dname_overflows(d: Difference, _: ZoneSet) -> bool:
    """A DNAME substitution exceeds 255 octets."""
    return YXDOMAIN in (d.our_response.rcode, d.their_response.rcode)


# --- Predicates on a deviation of `theirs`


def they_violate(*rules: Rule) -> Predicate:
    """Their response violates one of these rules, and ours none of them."""

    def matches(d: Difference, _: ZoneSet) -> bool:
        return any(f.rule in rules for f in d.theirs.violations) and not any(f.rule in rules for f in d.ours.violations)

    return matches


def alias_loop_rcode(d: Difference, zones: ZoneSet) -> bool:
    return alias_loops(d, zones) and d.our_response.rcode in (NOERROR, YXDOMAIN)


def dname_overflow_rcode(d: Difference, zones: ZoneSet) -> bool:
    return dname_overflows(d, zones) and d.our_response.rcode == YXDOMAIN


def nsec_query_gets_cname(d: Difference, _: ZoneSet) -> bool:
    return d.query.qtype == NSEC and any(r.rtype == CNAME for r in d.only_theirs("answer"))


def nsec_query_answered_at_cut(d: Difference, zones: ZoneSet) -> bool:
    name = d.query.name.lower()
    zone = zones.zone_of(name)
    return d.query.qtype == NSEC and zone is not None and zone.cut_above(name) == name and d.their_response.has(AA)


def any_stops_at_dname(d: Difference, _: ZoneSet) -> bool:
    return d.query.qtype == ANY and any(r.rtype == DNAME for r in d.their_response.answer) and not d.their_response.authority


def sends_extra_denial(d: Difference, _: ZoneSet) -> bool:
    """They send our authority section plus more NSEC or NSEC3 records, and our proof is complete."""
    same = not d.only_ours("authority") and all(is_denial(r) for r in d.only_theirs("authority"))
    return same and not any(violation.rule in PROOF_RULES for violation in d.ours.violations)


def omits_denial_after_alias(d: Difference, zones: ZoneSet) -> bool:
    """They omit NSEC or NSEC3 records from a response with aliases."""
    return sends_extra_denial(d.swapped(), zones) and any(r.rtype == CNAME for r in d.our_response.answer)


def omits_optional_addresses(d: Difference, zones: ZoneSet) -> bool:
    """In a referral, they omit addresses that we send, and send no RRset that we should have sent.

    Excludes addresses synthesized from wildcards, which are not glue (RFC 9471 2), signatures (RFC 4035 3.1.1: MAY), and RRsets for which our
    response has no space (owner compressed).
    """
    if not ends_in_referral(d.our_response):
        return False
    zone, sets = zones.zone_of(d.query.name, DS), defaultdict[tuple[bytes, int], int](int)
    for record in d.only_theirs("additional"):
        if record.rtype != RRSIG and zone is not None and record.owner in zone.names:
            sets[record.owner, record.rtype] += 12 + len(record.rdata)
    return not any(d.our_response.size + size <= d.query.size_limit_served for size in sets.values())


def sends_glue_below_dname(d: Difference, zones: ZoneSet) -> bool:
    """In a referral, they send addresses below a DNAME and no other addresses that we omit."""
    if not ends_in_referral(d.our_response):
        return False
    zone, theirs = zones.zone_of(d.query.name, DS), d.only_theirs("additional")
    return zone is not None and bool(theirs) and all(zone.dname_above(record.owner) for record in theirs)


def is_not_referral(d: Difference, _: ZoneSet) -> bool:
    return not ends_in_referral(d.our_response)


def is_bare_nxdomain(d: Difference, _: ZoneSet) -> bool:
    """Their NXDOMAIN response has neither AA nor records; opt-out hides the closest encloser, as our proof shows."""
    if not d.our_response.rcode == d.their_response.rcode == NXDOMAIN:
        return False
    return not (d.their_response.has(AA) or d.their_response.answer or d.their_response.authority)


def several_outcomes_acceptable(d: Difference, _: ZoneSet) -> bool:
    return bool(d.query.oddity) and {d.ours.outcome, d.theirs.outcome} <= d.query.acceptable


def outcome_unacceptable(d: Difference, _: ZoneSet) -> bool:
    return bool(d.query.oddity) and d.theirs.outcome not in d.query.acceptable


def wildcard_delegates(d: Difference, zones: ZoneSet) -> bool:
    """The zone has an NS RRset at a wildcard above the name."""
    zone = zones.zone_of(d.query.name)
    return zone is not None and any(zone.rrset(b"\1*" + above, NS) for above in ancestors(d.query.name.lower()))


def truncated_alias_chain(d: Difference, _: ZoneSet) -> bool:
    """One response is truncated, so its alias chain may be incomplete."""
    responses = d.our_response, d.their_response
    return any(r.has(TC) for r in responses) and any(record.rtype in (CNAME, DNAME) for r in responses for record in r.answer)


def nxdomain_at_empty_wildcard(d: Difference, zones: ZoneSet) -> bool:
    """They send NXDOMAIN, and we NOERROR, for a name that matches a wildcard that is an empty non-terminal."""
    if (d.our_response.rcode, d.their_response.rcode) != (NOERROR, NXDOMAIN):
        return False
    name = alias_chain(d.query, d.our_response)[-1]
    zone = zones.zone_of(name, d.query.qtype)
    source = zone.source_of_synthesis(name) if zone else None
    return zone is not None and source is not None and source not in zone.owners


def error_at_wildcard_cname(d: Difference, zones: ZoneSet) -> bool:
    r"""They send NXDOMAIN or SERVFAIL, and we follow the alias, for a name with first label `\000` that matches a wildcard with a CNAME."""
    name = d.query.name.lower()
    zone = zones.zone_of(name, d.query.qtype)
    source = zone.source_of_synthesis(name) if zone else None
    if zone is None or source is None or not (name.startswith(b"\1\0") and zone.rrset(source, CNAME)):
        return False
    return d.their_response.rcode in (NXDOMAIN, SERVFAIL) and any(r.owner == name and r.rtype == CNAME for r in d.our_response.answer)


def adds_zeros_to_apl(d: Difference, _: ZoneSet) -> bool:
    """Only APL records differ, by trailing zero octets in theirs."""
    ours, theirs = d.only_ours("answer"), d.only_theirs("answer")
    is_apl = all(r.rtype == APL for r in ours | theirs)
    return (
        is_apl
        and all(r.rdata == without_trailing_zeros(r.rdata) for r in ours)
        and ours == {r._replace(rdata=without_trailing_zeros(r.rdata)) for r in theirs}
    )


def without_trailing_zeros(rdata: bytes) -> bytes:
    """APL RDATA without trailing zero octets in its AFDPARTs (RFC 3123 4)."""
    out, at = b"", 0
    while at + 4 <= len(rdata):
        end = at + 4 + (rdata[at + 3] & 0x7F)
        if end > len(rdata):
            break
        afd_part = rdata[at + 4 : end].rstrip(b"\0")
        out += rdata[at : at + 3] + bytes([rdata[at + 3] & 0x80 | len(afd_part)]) + afd_part
        at = end
    return out + rdata[at:]


def only_ttls_differ(d: Difference) -> bool:
    def without_ttl(records: frozenset[Record]) -> set[tuple[bytes, int, bytes]]:
        return {(r.owner, r.rtype, r.rdata) for r in records}

    return all(without_ttl(section_of(d.our_response, s)) == without_ttl(section_of(d.their_response, s)) for s in SECTIONS)


def rrset_has_several_ttls(d: Difference, zones: ZoneSet) -> bool:
    """Only TTLs differ, in RRsets that have several TTLs in the zone file."""
    return only_ttls_differ(d) and all(len(ttls_in_zone(r, zones)) > 1 for s in SECTIONS for r in d.only_ours(s))


def ttls_in_zone(record: Record, zones: ZoneSet) -> set[int]:
    zone = zones.zone_of(record.owner, record.rtype)
    return {r.ttl for r in zone.rrset(record.owner, record.rtype)} if zone else set()


def signature_has_its_own_ttl(d: Difference, zones: ZoneSet) -> bool:
    """Only TTLs of RRSIGs differ, and theirs are not those of the RRsets."""
    return only_ttls_differ(d) and all(r.rtype == RRSIG for s in SECTIONS for r in d.only_theirs(s)) and they_violate(Rule.SIGNATURE_TTL)(d, zones)


KNOWN_DIFFERENCES: list[KnownDifference] = [
    known("unusual query: several outcomes are acceptable", SEE_QUERIES, "all", "outcome", several_outcomes_acceptable),
    known("unusual query: an outcome that the RFC excludes", SEE_QUERIES, "those with an acceptable outcome", "outcome", outcome_unacceptable, PEERS),
    known("UDP payload size advertised", "6891 6.2.3", "all: the server's own choice", "payload", always),
    known("EDNS options sent unasked", "6891 6.1.2", "all: unknown options are ignored", "options", always),
    known("CD copied", "4035 3.1.6", "nsd, knot: clear in authoritative answers", "cd", always, "bind"),
    known("QTYPE ANY", "8482 4", "all: any subset, or HINFO", CONTENTS, asks(ANY)),
    known("QTYPE RRSIG", "4034 3", "all: the RRSIGs at a name are not an RRset", CONTENTS, asks(RRSIG)),
    known("delegation at a wildcard", "4592 4.2", "undefined", CONTENTS + " rcode aa", wildcard_delegates),
    # Aliases.
    known("alias loop: length of the chain", "1034 3.6.2", "all: any finite length", CONTENTS, alias_loops),
    known("alias loop: RCODE", "1034 3.6.2", "undecided; zonda: NOERROR with the chain so far", "rcode", alias_loop_rcode, PEERS),
    known("DNAME substitution over 255 octets: chain before it", "6672 2.2", "all", CONTENTS, dname_overflows),
    known("DNAME substitution over 255 octets: RCODE", "6672 2.2", "YXDOMAIN", "rcode", dname_overflow_rcode, PEERS),
    known("QTYPE DS through an alias to or below a zone cut", "4035 3.1.4.1", "undefined: three servers, three answers", LOOKUP, ds_past_alias),
    known("alias into another served zone or below a zone cut", "1034 4.3.2 3a", "nsd: follows it", LOOKUP, stops_at_zone_boundary, "knot bind"),
    known("QTYPE NSEC at a CNAME", "4035 2.5", "knot, bind: the NSEC of the name", LOOKUP, nsec_query_gets_cname, "nsd"),
    known("QTYPE RRSIG at a CNAME", "1034 4.3.2 3a, 4035 2.5", "all: RRSIGs of the name, or the CNAME followed", LOOKUP, rrsig_at_alias),
    known("QTYPE ANY through a DNAME", "6672 3.2 3c", "nsd, knot: continue with the new name", LOOKUP, any_stops_at_dname, "bind"),
    known("RCODE of a truncated alias chain", "2181 9", "all: the response over TCP counts", "rcode", truncated_alias_chain),
    known(
        "error for a wildcard CNAME and first label \\000",
        "4592 3.3.3",
        "nsd, bind: the alias is followed",
        "rcode aa answer authority",
        error_at_wildcard_cname,
        "knot",
    ),
    # Denial of existence.
    known("NXDOMAIN for a wildcard that is an empty non-terminal", "4592 4.9", "nsd, knot: NOERROR", "rcode", nxdomain_at_empty_wildcard, "bind"),
    known("QTYPE NSEC at a delegation", "4035 3.1.4.1", "nsd, knot: referral", CONTENTS + " aa", nsec_query_answered_at_cut, "bind"),
    known("more denial of existence than needed", "5155 7.2.5", "knot: the minimum", "authority", sends_extra_denial, "nsd bind"),
    known(
        "denial of existence for each wildcard in an alias chain",
        "4035 3.1.3.3",
        "nsd, bind: for each alias",
        "authority",
        omits_denial_after_alias,
        "knot",
    ),
    known("denial of existence missing", "4035 3.1.3", "those that send the proof", "authority", they_violate(*PROOF_RULES), PEERS),
    known("SOA missing without TC", "2308 3", "those that send SOA or TC", "authority tc", they_violate(Rule.MISSING_SOA), PEERS),
    known(
        "NXDOMAIN that opt-out makes unprovable",
        "5155 7.1, erratum 3441",
        "those that send the closest proof and SOA",
        "aa",
        is_bare_nxdomain,
        "knot",
    ),
    # Referrals and additional records.
    known(
        "in-domain glue missing without TC", "9471 3.1", "those that send all of it or TC", "additional tc", they_violate(Rule.MISSING_GLUE), PEERS
    ),
    known("sibling glue and apex addresses in a referral", "9471 3.2", "those that send what fits", "additional", omits_optional_addresses, PEERS),
    known("address below a DNAME as sibling glue", "6672 2.4", "zonda: the DNAME hides it", "additional", sends_glue_below_dname, "bind"),
    known("additional section of an answer", "1034 4.3.2 6", "all: the choice is the server's", "additional", is_not_referral),
    # Records.
    known("APL with trailing zero octets", "3123 4", "knot, bind: without them", "answer", adds_zeros_to_apl, "nsd"),
    known("duplicate record", "2181 5", "those that send it once", "duplicates", they_violate(Rule.DUPLICATE_RECORD), PEERS),
    known("RRset with several TTLs in the zone file", "2181 5.2", "all: any one of them", SECTION_FIELDS, rrset_has_several_ttls),
    known("TTL of an RRSIG", "4034 3", "knot: that of the RRset", SECTION_FIELDS, signature_has_its_own_ttl, "nsd bind"),
]
