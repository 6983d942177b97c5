"""The table of known differences: what they look like, which RFC speaks of them, who is right, and whose answer may differ.

A difference is explained when every field in which it differs is claimed by a row. A row with `deviants` excuses a difference with
those servers only: the subject must answer as the others do. A row without deviants is free: nobody is wrong.
The rulings are those of docs/disputed-answers.md; a new row needs the rule of an RFC, or its silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compare import SECTIONS, Difference
from message import (
    AA,
    ANY,
    CNAME,
    DNAME,
    DS,
    NS,
    NSEC,
    RRSIG,
    TC,
    YXDOMAIN,
    Answer,
    Record,
    ancestors,
)
from zoneset import ZoneSet, chain, is_denial

Predicate = Callable[[Difference, ZoneSet], bool]
PEERS = frozenset({"nsd", "knot", "bind"})
EVERYTHING = frozenset({*SECTIONS, "aa", "tc", "rcode", "doubled"})


@dataclass(frozen=True)
class Explanation:
    """One class of differences. `matches` sees the difference with a deviant as `theirs`; a free class sees it either way round."""

    name: str
    rfc: str
    right: str
    fields: frozenset[str]
    matches: Predicate
    deviants: frozenset[str] = frozenset()

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


def explain(difference: Difference, zones: ZoneSet, table: list[Explanation]) -> tuple[list[Explanation], frozenset[str]]:
    """The classes that explain a difference, and the fields left unexplained."""
    left, found = difference.fields, []
    for row in table:
        if claimed := row.claims(difference, zones) & left:
            left -= claimed
            found.append(row)
        if not left:
            break
    return found, left


# --- What a difference is about


def asks(*qtypes: int) -> Predicate:
    return lambda d, _: d.question.qtype in qtypes


def always(_: Difference, __: ZoneSet) -> bool:
    return True


def last_name(d: Difference) -> bytes:
    """The name at which the longer of the two chains of aliases ends."""
    return max(chain(d.question, d.a), chain(d.question, d.b), key=len)[-1]


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


# --- Rows about one server's habit; `theirs` is that server


def answered_by_alias(d: Difference, _: ZoneSet) -> bool:
    return d.question.qtype in (NSEC, RRSIG) and d.both_answer and any(r.rtype == CNAME for r in d.only_theirs("answer"))


def nsec_question_answered_at_cut(d: Difference, zones: ZoneSet) -> bool:
    name = d.question.name.lower()
    zone = zones.zone_of(name)
    return d.question.qtype == NSEC and d.both_answer and zone is not None and zone.cut_above(name) == name and d.b.has(AA)


def any_stops_at_dname(d: Difference, _: ZoneSet) -> bool:
    return d.question.qtype == ANY and d.both_answer and any(r.rtype == DNAME for r in d.b.answer) and not d.b.authority


def leaves_out_soa(d: Difference, _: ZoneSet) -> bool:
    return d.both_answer and any("RFC 2308 2" in fault for fault in d.theirs.faults)


def more_denial(d: Difference, _: ZoneSet) -> bool:
    """They send the same and further NSEC or NSEC3 records."""
    return d.both_answer and not d.only_ours("authority") and all(is_denial(r) for r in d.only_theirs("authority"))


def less_denial(d: Difference, zones: ZoneSet) -> bool:
    """They leave out NSEC or NSEC3 records of an answer that went through an alias."""
    return more_denial(d.swapped(), zones) and any(r.rtype == CNAME for r in d.a.answer)


def proves_nothing(d: Difference, _: ZoneSet) -> bool:
    """Their negative answer lacks a proof that ours has."""

    def lacks_proof(faults: tuple[str, ...]) -> bool:
        return any(fault.startswith("nothing proves") for fault in faults)

    return d.both_answer and lacks_proof(d.theirs.faults) and not lacks_proof(d.ours.faults)


def leaves_out_glue(d: Difference, _: ZoneSet) -> bool:
    """They leave out addresses of in-domain servers without saying so by TC."""
    return d.both_answer and any("RFC 9471" in fault for fault in d.theirs.faults)


def repeats(d: Difference, _: ZoneSet) -> bool:
    return d.both_answer and d.b.doubled > 0 and d.a.doubled == 0


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

    return d.both_answer and all(without_ttl(getattr(d.a, s)) == without_ttl(getattr(d.b, s)) for s in SECTIONS)


def set_has_several_ttls(d: Difference, zones: ZoneSet) -> bool:
    """Only TTLs differ, of sets that have several in the zone text."""
    return only_ttls_differ(d) and all(len(ttls_in_text(r, zones)) > 1 for s in SECTIONS for r in d.only_ours(s))


def ttls_in_text(record: Record, zones: ZoneSet) -> set[int]:
    zone = zones.zone_of(record.owner, record.rtype)
    return {r.ttl for r in zone.set_of(record.owner, record.rtype)} if zone else set()


def signature_has_its_own_ttl(d: Difference, _: ZoneSet) -> bool:
    """Only TTLs of signatures differ, and theirs is not that of the set."""
    return (
        only_ttls_differ(d) and all(r.rtype == RRSIG for s in SECTIONS for r in d.only_theirs(s)) and any("RFC 4034 3" in f for f in d.theirs.faults)
    )


TABLE: list[Explanation] = [
    Explanation("odd message: the RFC leaves the choice", "see malformed.py", "all", frozenset({"outcome"}), several_outcomes_are_right),
    Explanation(
        "odd message: not what the RFC says", "see malformed.py", "whoever does as the RFC says", frozenset({"outcome"}), outcome_is_wrong, PEERS
    ),
    Explanation("delegation at a wildcard", "4592 4.2", "undefined", EVERYTHING, wildcard_delegates),
    Explanation("QTYPE ANY", "8482 4", "all: any subset, or HINFO", EVERYTHING - {"rcode", "aa"}, asks(ANY)),
    Explanation("QTYPE RRSIG", "8482 7", "all: signatures alone mean nothing", EVERYTHING - {"rcode", "aa"}, asks(RRSIG)),
    Explanation("CD copied", "4035 3.1.6", "nsd, knot: clear in an authoritative answer", frozenset({"cd"}), always, frozenset({"bind"})),
    Explanation("UDP payload offered", "6891 6.2.3", "all: the server's own choice", frozenset({"payload"}), always),
    Explanation("EDNS options of the server's own", "6891 6.1.2", "all: unknown options are ignored", frozenset({"options"}), always),
    Explanation("alias loop", "1034 3.6.2", "nobody: the chain so far, with NOERROR or SERVFAIL", EVERYTHING - {"aa"}, loops),
    Explanation("DNAME makes a name over 255 octets", "6672 2.2", "YXDOMAIN; how many links before is free", EVERYTHING - {"aa"}, overflows),
    Explanation(
        "DS asked through an alias, at or past a cut", "4035 3.1.4.1", "undefined: three servers, three answers", EVERYTHING - {"aa"}, ds_past_alias
    ),
    Explanation(
        "alias into another zone served or past a cut",
        "1034 4.3.2 3a",
        "zonda, nsd follow; knot, bind may stop",
        EVERYTHING - {"aa"},
        stops_at_zone_end,
        frozenset({"knot", "bind"}),
    ),
    Explanation(
        "NSEC or RRSIG asked at an alias", "4035 2.5", "knot, bind: they are data of the name", EVERYTHING, answered_by_alias, frozenset({"nsd"})
    ),
    Explanation(
        "ANY asked through a DNAME", "6672 3.2 3c", "nsd, knot: go on with the new name", EVERYTHING, any_stops_at_dname, frozenset({"bind"})
    ),
    Explanation(
        "NSEC asked at a delegation",
        "4035 3.1.4.1",
        "nsd, knot: refer, only DS is the parent's",
        EVERYTHING,
        nsec_question_answered_at_cut,
        frozenset({"bind"}),
    ),
    Explanation(
        "denial beyond the minimum", "5155 7.2.5", "knot, bind: each record once needed", frozenset({"authority"}), more_denial, frozenset({"nsd"})
    ),
    Explanation(
        "denial for each wildcard on the way",
        "4035 3.1.3.3",
        "nsd, bind: one for every link",
        frozenset({"authority"}),
        less_denial,
        frozenset({"knot"}),
    ),
    Explanation("denial left out", "4035 3.1.3", "whoever sends the proof", frozenset({"authority"}), proves_nothing, PEERS),
    Explanation("SOA left out without TC", "2308 2", "whoever sends SOA, or TC", frozenset({"authority", "tc"}), leaves_out_soa, PEERS),
    Explanation("glue left out without TC", "9471 2.1", "whoever sends all glue, or TC", frozenset({"additional", "tc"}), leaves_out_glue, PEERS),
    Explanation("a record twice", "2181 5", "whoever sends it once", frozenset({"doubled"}), repeats, PEERS),
    Explanation("RCODE of a chain that TC cut", "2181 9", "all: the answer over TCP counts", frozenset({"rcode"}), truncated_on_the_way),
    Explanation("a set with several TTLs in the text", "2181 5.2", "all: any one of them", frozenset(SECTIONS), set_has_several_ttls),
    Explanation(
        "TTL of a signature",
        "4034 3",
        "knot: the TTL of the set it covers",
        frozenset(SECTIONS),
        signature_has_its_own_ttl,
        frozenset({"nsd", "bind"}),
    ),
    # What must be there, the in-domain glue of RFC 9471, is looked for in every server's answers by laws.py.
    Explanation("additional section", "1034 4.3.2 6", "all: what is useful is the server's view", frozenset({"additional"}), always),
]
