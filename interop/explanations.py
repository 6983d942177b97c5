"""The table of known differences: what they look like, which RFC speaks of them, who is right, and whose answer may differ.

A difference is explained when every field in which it differs is claimed by a row. A row with `deviants` excuses a difference with
those servers only: the subject must answer as the others do. A row without deviants is free: nobody is wrong.
The rulings are those of docs/disputed-answers.md; a new row needs the rule of an RFC, or its silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from compare import SECTIONS, Difference, section_of
from faults import PROOFS, Rule
from message import AA, ANY, CNAME, DNAME, DS, NOERROR, NS, NSEC, NXDOMAIN, RRSIG, TC, YXDOMAIN, Answer, Record
from names import ancestors
from zoneset import ZoneSet, chain, hands_over, is_denial

Predicate = Callable[[Difference, ZoneSet], bool]
PEERS = "nsd knot bind"
# All that a lookup decides. The RCODE and AA are named apart: few classes may touch them.
CONTENTS = "answer authority additional tc doubled"


@dataclass(frozen=True)
class Explanation:
    """One class of differences. `matches` sees the difference with a deviant as `theirs`; a free class sees it either way round."""

    name: str
    rfc: str
    right: str
    fields: frozenset[str]
    matches: Predicate
    deviants: frozenset[str]

    def claims(self, difference: Difference, zones: ZoneSet) -> frozenset[str]:
        """The fields of the difference that this class explains."""
        common = self.fields & difference.fields
        if common and any(self.matches(d, zones) for d in self.orientations(difference)):
            return common
        return frozenset()

    def orientations(self, difference: Difference) -> list[Difference]:
        """The ways round in which `theirs` may be the deviant; the subject is never excused."""
        both = [difference, difference.swapped()]
        return both if not self.deviants else [d for d in both if d.theirs.server in self.deviants]


def row(name: str, rfc: str, right: str, fields: str, matches: Predicate, deviants: str = "") -> Explanation:
    """A row of the table; fields and deviants are words."""
    return Explanation(name, rfc, right, frozenset(fields.split()), matches, frozenset(deviants.split()))


def explain(difference: Difference, zones: ZoneSet, table: list[Explanation]) -> tuple[list[Explanation], frozenset[str]]:
    """The classes that explain a difference, and the fields left unexplained."""
    left, found = difference.fields, []
    for candidate in table:
        if claimed := candidate.claims(difference, zones) & left:
            left -= claimed
            found.append(candidate)
        if not left:
            break
    return found, left


# --- What a difference is about


def asks(*qtypes: int) -> Predicate:
    return lambda d, _: d.question.qtype in qtypes


def always(_: Difference, __: ZoneSet) -> bool:
    return True


def leaves_zone(d: Difference, zones: ZoneSet) -> bool:
    """An alias leads into another zone of the server, or to or below a delegation of the same zone."""
    if not d.both_answer:
        return False
    first, *rest = max(chain(d.question, d.a), chain(d.question, d.b), key=len)
    home = zones.zone_of(first, d.question.qtype)
    return any(zones.zone_of(name, d.question.qtype) is not home or (home is not None and home.cut_above(name)) for name in rest)


def stops_at_zone_end(d: Difference, zones: ZoneSet) -> bool:
    """Their chain of aliases ends where the zone does; ours goes on, or ends there too."""
    return leaves_zone(d, zones) and not d.only_theirs("answer")


def ds_past_alias(d: Difference, zones: ZoneSet) -> bool:
    return d.question.qtype == DS and leaves_zone(d, zones)


def rrsig_at_alias(d: Difference, _: ZoneSet) -> bool:
    return d.question.qtype == RRSIG and d.both_answer and any(r.rtype == CNAME for r in d.a.answer | d.b.answer)


def loops(d: Difference, _: ZoneSet) -> bool:
    """The aliases lead back to where they were, or a DNAME makes its own next question."""
    return d.both_answer and any(is_loop(m) for m in (d.a, d.b))


def is_loop(message: Answer) -> bool:
    aliases = {r.owner: r.rdata for r in message.answer if r.rtype == CNAME}
    dnames = {r.owner: r.rdata for r in message.answer if r.rtype == DNAME}
    grows = any(owner in ancestors(target) for owner, target in dnames.items())
    turns = any(r.rtype == DNAME and r.owner in ancestors(target) for r in message.answer for target in dnames.values())
    return grows or (turns and len(aliases) > 1) or any(returns(aliases, name) for name in aliases)


def returns(aliases: dict[bytes, bytes], start: bytes) -> bool:
    """Whether following the aliases from `start` comes to a name a second time."""
    seen = set()
    while start in aliases:
        if start in seen:
            return True
        seen.add(start)
        start = aliases[start]
    return False


def overflows(d: Difference, _: ZoneSet) -> bool:
    """A DNAME made a name of more than 255 octets."""
    return d.both_answer and YXDOMAIN in (d.a.rcode, d.b.rcode)


# --- Rows about a habit or mistake; `theirs` is the server that has it


def breaks(*rules: Rule) -> Predicate:
    """Their answer breaks one of these rules, and ours none of them."""

    def matches(d: Difference, _: ZoneSet) -> bool:
        return any(f.rule in rules for f in d.theirs.faults) and not any(f.rule in rules for f in d.ours.faults)

    return matches


def loop_is_an_error(d: Difference, zones: ZoneSet) -> bool:
    return loops(d, zones) and d.a.rcode in (NOERROR, YXDOMAIN)


def overflow_is_no_error(d: Difference, zones: ZoneSet) -> bool:
    return overflows(d, zones) and d.a.rcode == YXDOMAIN


def nsec_answered_by_alias(d: Difference, _: ZoneSet) -> bool:
    return d.question.qtype == NSEC and d.both_answer and any(r.rtype == CNAME for r in d.only_theirs("answer"))


def nsec_answered_at_cut(d: Difference, zones: ZoneSet) -> bool:
    name = d.question.name.lower()
    zone = zones.zone_of(name)
    return d.question.qtype == NSEC and d.both_answer and zone is not None and zone.cut_above(name) == name and d.b.has(AA)


def any_stops_at_dname(d: Difference, _: ZoneSet) -> bool:
    return d.question.qtype == ANY and d.both_answer and any(r.rtype == DNAME for r in d.b.answer) and not d.b.authority


def more_denial(d: Difference, _: ZoneSet) -> bool:
    """They send the same and further NSEC or NSEC3 records, and ours would have done."""
    same = d.both_answer and not d.only_ours("authority") and all(is_denial(r) for r in d.only_theirs("authority"))
    return same and not any(fault.rule in PROOFS for fault in d.ours.faults)


def less_denial(d: Difference, zones: ZoneSet) -> bool:
    """They leave out NSEC or NSEC3 records of an answer that went through an alias."""
    return more_denial(d.swapped(), zones) and any(r.rtype == CNAME for r in d.a.answer)


def adds_other_addresses(d: Difference, zones: ZoneSet) -> bool:
    """In a referral, they leave out addresses that we send, and send none that we should and could.

    Not what a wildcard makes, which is no glue (RFC 9471 2), and not signatures (RFC 4035 3.1.1: MAY); and the set must fit (owner compressed).
    """
    if not (d.both_answer and hands_over(d.a)):
        return False
    zone, sets = zones.zone_of(d.question.name, DS), defaultdict[tuple[bytes, int], int](int)
    for record in d.only_theirs("additional"):
        if record.rtype != RRSIG and zone is not None and record.owner in zone.names:
            sets[record.owner, record.rtype] += 12 + len(record.rdata)
    return not any(d.a.size + size <= d.question.room_served for size in sets.values())


def sends_hidden_glue(d: Difference, zones: ZoneSet) -> bool:
    """In a referral, they send addresses that stand below a DNAME, and send no others that we do not."""
    if not (d.both_answer and hands_over(d.a)):
        return False
    zone, theirs = zones.zone_of(d.question.name, DS), d.only_theirs("additional")
    return zone is not None and bool(theirs) and all(zone.dname_above(record.owner) for record in theirs)


def is_no_referral(d: Difference, _: ZoneSet) -> bool:
    return d.both_answer and not hands_over(d.a)


def nothing_is_said(d: Difference, _: ZoneSet) -> bool:
    """Their name error has neither AA nor records: the proof of ours shows that opt-out hides the closest encloser."""
    return d.both_answer and d.a.rcode == d.b.rcode == NXDOMAIN and not (d.b.has(AA) or d.b.answer or d.b.authority)


def several_outcomes_are_right(d: Difference, _: ZoneSet) -> bool:
    return bool(d.question.note) and {d.ours.outcome, d.theirs.outcome} <= d.question.right


def outcome_is_wrong(d: Difference, _: ZoneSet) -> bool:
    return bool(d.question.note) and d.theirs.outcome not in d.question.right


def wildcard_delegates(d: Difference, zones: ZoneSet) -> bool:
    """The zone has a delegation at a wildcard above the name."""
    zone = zones.zone_of(d.question.name)
    return zone is not None and any(zone.set_of(b"\1*" + above, NS) for above in ancestors(d.question.name.lower()))


def truncated_on_the_way(d: Difference, _: ZoneSet) -> bool:
    """One truncates, and may have stopped following the aliases where the message was full."""
    return d.both_answer and (d.a.has(TC) or d.b.has(TC)) and any(r.rtype in (CNAME, DNAME) for r in d.a.answer | d.b.answer)


def only_ttls_differ(d: Difference) -> bool:
    def without_ttl(records: frozenset[Record]) -> set[tuple[bytes, int, bytes]]:
        return {(r.owner, r.rtype, r.rdata) for r in records}

    return d.both_answer and all(without_ttl(section_of(d.a, s)) == without_ttl(section_of(d.b, s)) for s in SECTIONS)


def set_has_several_ttls(d: Difference, zones: ZoneSet) -> bool:
    """Only TTLs differ, of sets that have several in the zone text."""
    return only_ttls_differ(d) and all(len(ttls_in_text(r, zones)) > 1 for s in SECTIONS for r in d.only_ours(s))


def ttls_in_text(record: Record, zones: ZoneSet) -> set[int]:
    zone = zones.zone_of(record.owner, record.rtype)
    return {r.ttl for r in zone.set_of(record.owner, record.rtype)} if zone else set()


def signature_has_its_own_ttl(d: Difference, zones: ZoneSet) -> bool:
    """Only TTLs of signatures differ, and theirs is not that of the set."""
    return only_ttls_differ(d) and all(r.rtype == RRSIG for s in SECTIONS for r in d.only_theirs(s)) and breaks(Rule.SIGNATURE_TTL)(d, zones)


TABLE: list[Explanation] = [
    row("odd message: the RFC leaves the choice", "see malformed.py", "all", "outcome", several_outcomes_are_right),
    row("odd message: not what the RFC says", "see malformed.py", "whoever does as it says", "outcome", outcome_is_wrong, PEERS),
    row("UDP payload offered", "6891 6.2.3", "all: the server's own choice", "payload", always),
    row("EDNS options of the server's own", "6891 6.1.2", "all: unknown options are ignored", "options", always),
    row("CD copied", "4035 3.1.6", "nsd, knot: clear in an authoritative answer", "cd", always, "bind"),
    row("QTYPE ANY", "8482 4", "all: any subset, or HINFO", CONTENTS, asks(ANY)),
    row("QTYPE RRSIG", "4034 3", "all: signatures at a name are no set", CONTENTS, asks(RRSIG)),
    row("delegation at a wildcard", "4592 4.2", "undefined", CONTENTS + " rcode aa", wildcard_delegates),
    # Aliases.
    row("alias loop: how far it is followed", "1034 3.6.2", "all: somewhere it must end", CONTENTS, loops),
    row("alias loop: RCODE", "1034 3.6.2", "silent; NOERROR with the chain so far", "rcode", loop_is_an_error, PEERS),
    row("DNAME makes a name over 255 octets: links before", "6672 2.2", "all", CONTENTS, overflows),
    row("DNAME makes a name over 255 octets: RCODE", "6672 2.2", "YXDOMAIN", "rcode", overflow_is_no_error, PEERS),
    row("DS asked through an alias, at or past a cut", "4035 3.1.4.1", "undefined: three servers, three answers", CONTENTS + " rcode", ds_past_alias),
    row("alias into another zone served or past a cut", "1034 4.3.2 3a", "nsd follows", CONTENTS + " rcode", stops_at_zone_end, "knot bind"),
    row("NSEC asked at an alias", "4035 2.5", "knot, bind: data of the name", CONTENTS + " rcode", nsec_answered_by_alias, "nsd"),
    row("RRSIG asked at an alias", "1034 4.3.2 3a, 4035 2.5", "all: data of the name, or led on", CONTENTS + " rcode", rrsig_at_alias),
    row("ANY asked through a DNAME", "6672 3.2 3c", "nsd, knot: go on with the new name", CONTENTS + " rcode", any_stops_at_dname, "bind"),
    row("RCODE of a chain that TC cut", "2181 9", "all: the answer over TCP counts", "rcode", truncated_on_the_way),
    # Denial.
    row("NSEC asked at a delegation", "4035 3.1.4.1", "nsd, knot: refer", CONTENTS + " aa", nsec_answered_at_cut, "bind"),
    row("denial beyond the minimum", "5155 7.2.5", "knot: what is needed, once", "authority", more_denial, "nsd bind"),
    row("denial for each wildcard on the way", "4035 3.1.3.3", "nsd, bind: for every link", "authority", less_denial, "knot"),
    row("denial left out", "4035 3.1.3", "whoever sends the proof", "authority", breaks(*PROOFS), PEERS),
    row("SOA left out without TC", "2308 3", "whoever sends SOA, or TC", "authority tc", breaks(Rule.NO_SOA), PEERS),
    row("a name error that opt-out cannot prove", "5155 7.1, erratum 3441", "whoever sends what there is", "aa", nothing_is_said, "knot"),
    # Referrals and what is added.
    row("in-domain glue left out without TC", "9471 3.1", "whoever sends it all, or TC", "additional tc", breaks(Rule.GLUE), PEERS),
    row("sibling glue and apex addresses in a referral", "9471 3.2", "whoever sends what fits", "additional", adds_other_addresses, PEERS),
    row("an address below a DNAME as sibling glue", "6672 2.4", "zonda: the DNAME hides it", "additional", sends_hidden_glue, "bind"),
    row("additional section of an answer", "1034 4.3.2 6", "all: what may be useful", "additional", is_no_referral),
    # Records.
    row("a record twice", "2181 5", "whoever sends it once", "doubled", breaks(Rule.TWICE), PEERS),
    row("a set with several TTLs in the text", "2181 5.2", "all: any one of them", "answer authority additional", set_has_several_ttls),
    row("TTL of a signature", "4034 3", "knot: that of the set", "answer authority additional", signature_has_its_own_ttl, "nsd bind"),
]
