"""Entries excuse only the peers and fields they name, never the subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from response_builder import Entry, answer

from answer_comparison import Reply, compare
from answer_rules import Rule, Violation
from dns_numbers import AA, ANY, APL, CNAME, DS, NS, NSEC, NXDOMAIN, RD, SOA, TC, TXT, A
from known_differences import KNOWN_DIFFERENCES, explain
from message import Query
from names import wire_name
from zone_data import ZoneData
from zone_set import ZoneSet

TEXT = """
$TTL 60
@ SOA ns host 1 2 3 4 5
@ NS ns
ns A 192.0.2.1
www A 192.0.2.2
alias CNAME www
out CNAME www.other.
cut NS ns.cut
ns.cut A 192.0.2.3
several 60 A 192.0.2.4
several 90 A 192.0.2.5
*.wild NS ns
x.*.empty TXT "x"
*.text TXT "x"
*.aliases CNAME www
"""
SOA_DATA = wire_name("ns.example.") + wire_name("host.example.") + bytes([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5])
NO_DATA: list[Entry] = [("example.", SOA, SOA_DATA, 5)]
ADDRESS, OTHER_ADDRESS = bytes([192, 0, 2, 2]), bytes([192, 0, 2, 9])


@pytest.fixture
def zones(zone_of: Callable[[str, str], ZoneData]) -> ZoneSet:
    other = zone_of("other.", "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nwww 60 A 192.0.2.2\n")
    return ZoneSet({z.apex: z for z in (zone_of("example.", TEXT), other)})


def left(zones: ZoneSet, query: Query, ours: Reply, theirs: Reply) -> tuple[list[str], set[str]]:
    """The names of the matching entries and the unexplained fields."""
    difference = compare(query, ours, theirs)
    assert difference is not None, "the replies do not differ"
    rows, fields = explain(difference, zones, KNOWN_DIFFERENCES)
    return [row.name for row in rows], set(fields)


def asked(name: str, qtype: int, payload: int | None = None) -> Query:
    return Query(wire_name(name), qtype, payload=payload)


def test_equivalent_responses_do_not_differ() -> None:
    query = asked("www.example.", A)
    one, two = ("www.example.", A, ADDRESS), ("www.example.", A, OTHER_ADDRESS)
    assert compare(query, Reply.of("zonda", answer(query, [one, two])), Reply.of("nsd", answer(query, [two, one]))) is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"answers": [("www.example.", A, OTHER_ADDRESS)]}, "answer"),
        ({"answers": [("www.example.", A, ADDRESS, 61)]}, "answer"),
        ({"answers": [("www.example.", A, ADDRESS)] * 2}, "duplicates"),
        ({"answers": [("www.example.", A, ADDRESS)], "flags": 0}, "aa"),
        ({"answers": [("www.example.", A, ADDRESS)], "flags": AA | TC}, "tc"),
        ({"answers": [("www.example.", A, ADDRESS)], "flags": AA | RD}, "rd"),
        ({"answers": [("www.example.", A, ADDRESS)], "rcode": 3}, "rcode"),
        ({"answers": [("www.example.", A, ADDRESS)], "authority": NO_DATA}, "authority"),
    ],
)
def test_a_wrong_answer_is_unexplained(zones: ZoneSet, wrong: dict[str, list[Entry]], field: str) -> None:
    query = asked("www.example.", A)
    right = Reply.of("nsd", answer(query, [("www.example.", A, ADDRESS)]))
    assert left(zones, query, Reply.of("zonda", answer(query, **wrong)), right) == ([], {field})


def test_silence_and_garbage_are_unexplained(zones: ZoneSet) -> None:
    query = asked("www.example.", A)
    right = Reply.of("nsd", answer(query, [("www.example.", A, ADDRESS)]))
    assert left(zones, query, Reply.of("zonda", None), right) == ([], {"outcome"})
    assert left(zones, query, Reply.of("zonda", b"\0" * 12 + b"x"), right) == ([], {"outcome"})


def alias_case() -> tuple[Query, bytes, bytes]:
    query = asked("alias.example.", NSEC)
    return query, answer(query, authority=NO_DATA), answer(query, [("alias.example.", CNAME, wire_name("www.example."))], NO_DATA)


def cut_case() -> tuple[Query, bytes, bytes]:
    query = asked("cut.example.", NSEC)
    referral = answer(query, authority=[("cut.example.", NS, wire_name("ns.cut.example."))], flags=0)
    return query, referral, answer(query, [("cut.example.", NSEC, wire_name("ns.example.") + b"\0\1\x20")])


def other_zone_case() -> tuple[Query, bytes, bytes]:
    query, alias = asked("out.example.", A), ("out.example.", CNAME, wire_name("www.other."))
    return query, answer(query, [alias, ("www.other.", A, ADDRESS)]), answer(query, [alias])


def name_error_case() -> tuple[Query, bytes, bytes]:
    query = asked("nothing.example.", A, 1232)
    return query, answer(query, authority=NO_DATA, rcode=NXDOMAIN), answer(query, authority=NO_DATA, rcode=NXDOMAIN, flags=0)


def test_only_a_bare_nxdomain_without_aa_is_excused(zones: ZoneSet) -> None:
    query, whole, bare = name_error_case()
    empty = answer(query, rcode=NXDOMAIN, flags=0)
    assert "NXDOMAIN that opt-out makes unprovable" in left(zones, query, Reply.of("zonda", whole), Reply.of("knot", empty))[0]
    assert "aa" in left(zones, query, Reply.of("zonda", whole), Reply.of("knot", bare))[1]
    assert "aa" in left(zones, query, Reply.of("zonda", empty), Reply.of("knot", whole))[1]


@pytest.mark.parametrize(
    ("case", "excused", "name"),
    [
        (alias_case, "nsd", "QTYPE NSEC at a CNAME"),
        (cut_case, "bind", "QTYPE NSEC at a delegation"),
        (other_zone_case, "bind", "alias into another served zone or below a zone cut"),
        (other_zone_case, "knot", "alias into another served zone or below a zone cut"),
    ],
)
def test_a_deviation_excuses_only_the_peer_that_has_it(
    zones: ZoneSet, case: Callable[[], tuple[Query, bytes, bytes]], excused: str, name: str
) -> None:
    query, usual, deviating = case()
    peer = "knot" if excused != "knot" else "nsd"
    assert left(zones, query, Reply.of("zonda", usual), Reply.of(excused, deviating)) == ([name], set())
    assert left(zones, query, Reply.of(peer, usual), Reply.of(excused, deviating)) == ([name], set())
    assert name not in left(zones, query, Reply.of("zonda", deviating), Reply.of(peer, usual))[0]
    assert left(zones, query, Reply.of("zonda", deviating), Reply.of(peer, usual))[1]


def test_a_violation_excuses_a_peer_but_not_the_subject(zones: ZoneSet) -> None:
    query = asked("www.example.", A, 1232)
    full = answer(query, authority=[*NO_DATA, ("example.", NSEC, wire_name("ns.example.") + b"\0\1\x20")])
    less = answer(query, authority=NO_DATA)
    broken = Reply("nsd", less, Reply.of("nsd", less).response, violations=(Violation(Rule.NODATA_UNPROVED),))
    assert left(zones, query, Reply.of("zonda", full), broken) == (["denial of existence missing"], set())
    assert left(zones, query, replace(broken, server="zonda"), Reply.of("knot", full)) == ([], {"authority"})


def test_any_may_differ_except_in_rcode(zones: ZoneSet) -> None:
    query = asked("www.example.", ANY)
    one, other = answer(query, [("www.example.", A, ADDRESS)]), answer(query, [("www.example.", 13, b"\7RFC8482\0")])
    assert left(zones, query, Reply.of("zonda", one), Reply.of("nsd", other)) == (["QTYPE ANY"], set())
    failed = answer(query, rcode=2)
    assert left(zones, query, Reply.of("zonda", failed), Reply.of("nsd", other))[1] == {"rcode"}


def test_alias_loops_may_differ(zones: ZoneSet) -> None:
    query = asked("a.example.", A)
    loop: list[Entry] = [("a.example.", CNAME, wire_name("b.example.")), ("b.example.", CNAME, wire_name("a.example."))]
    ours, theirs = Reply.of("zonda", answer(query, loop)), Reply.of("bind", answer(query, loop, rcode=2))
    assert left(zones, query, ours, theirs) == (["alias loop: RCODE"], set())


def test_any_ttl_of_an_rrset_with_several_is_accepted(zones: ZoneSet) -> None:
    query = asked("several.example.", A)
    data = [bytes([192, 0, 2, 4]), bytes([192, 0, 2, 5])]
    ours, theirs = (answer(query, [("several.example.", A, d, ttl) for d in data]) for ttl in (60, 90))
    assert left(zones, query, Reply.of("zonda", ours), Reply.of("nsd", theirs)) == (["RRset with several TTLs in the zone file"], set())


def test_ds_may_differ_only_through_an_alias(zones: ZoneSet) -> None:
    query = asked("www.example.", DS)
    ours, theirs = answer(query, authority=NO_DATA), answer(query, authority=[("example.", SOA, SOA_DATA, 6)])
    assert left(zones, query, Reply.of("zonda", ours), Reply.of("nsd", theirs)) == ([], {"authority"})


def test_unusual_queries_have_acceptable_outcomes(zones: ZoneSet) -> None:
    query = Query(wire_name("www.example."), A, raw=b"\0\0", oddity="odd", acceptable=frozenset({"FORMERR", "silence"}), rfc="1035")
    formerr, noerror = (Reply.of("nsd", answer(asked("www.example.", A), rcode=rcode)) for rcode in (1, 0))
    silence = Reply.of("zonda", None)
    assert left(zones, query, silence, formerr) == (["unusual query: several outcomes are acceptable"], set())
    assert left(zones, query, silence, noerror) == (["unusual query: an outcome that the RFC excludes"], set())
    ours = Reply.of("zonda", answer(asked("www.example.", A)))
    assert left(zones, query, ours, formerr) == ([], {"outcome"})


def nxdomain(query: Query) -> bytes:
    return answer(query, authority=NO_DATA, rcode=NXDOMAIN)


@pytest.mark.parametrize(
    ("name", "is_explained"),
    [
        ("a.empty.example.", True),
        ("b.a.empty.example.", True),
        ("a.text.example.", False),  # the wildcard has data
        ("a.x.*.empty.example.", False),  # no wildcard at the closest encloser
        ("*.empty.example.", False),  # the empty non-terminal itself
    ],
)
def test_bind_may_send_nxdomain_only_for_an_empty_wildcard(zones: ZoneSet, name: str, is_explained: bool) -> None:
    query = asked(name, A)
    nodata, absent = Reply.of("zonda", answer(query, authority=NO_DATA)), nxdomain(query)
    expected = (["NXDOMAIN for a wildcard that is an empty non-terminal"], set()) if is_explained else ([], {"rcode"})
    assert left(zones, query, nodata, Reply.of("bind", absent)) == expected
    assert left(zones, query, nodata, Reply.of("nsd", absent)) == ([], {"rcode"})
    assert left(zones, query, Reply.of("zonda", absent), Reply.of("bind", answer(query, authority=NO_DATA))) == ([], {"rcode"})


@pytest.mark.parametrize(
    ("name", "is_explained"),
    [(r"\000.aliases.example.", True), ("a.aliases.example.", False), (r"a\000.aliases.example.", False), (r"\000.alias.example.", False)],
)
def test_knot_may_send_errors_only_for_label_0_at_a_wildcard_cname(zones: ZoneSet, name: str, is_explained: bool) -> None:
    query = asked(name, TXT)
    followed = answer(query, [(name, CNAME, wire_name("www.example."))], NO_DATA)
    absent = answer(query, [(name, CNAME, wire_name("www.example."))], NO_DATA, rcode=NXDOMAIN)
    expected = ([r"error for a wildcard CNAME and first label \000"], set()) if is_explained else ([], {"rcode"})
    assert left(zones, query, Reply.of("zonda", followed), Reply.of("knot", absent)) == expected
    failed = Reply.of("knot", answer(query, [(name, CNAME, wire_name("www.example."))], NO_DATA, rcode=2))
    assert left(zones, query, Reply.of("zonda", followed), failed) == expected
    assert left(zones, query, Reply.of("zonda", followed), Reply.of("nsd", absent)) == ([], {"rcode"})
    assert left(zones, query, Reply.of("zonda", absent), Reply.of("knot", followed)) == ([], {"rcode"})


SHORT_APL, LONG_APL, OTHER_APL = b"\0\1\x15\x03\xc0\xa8\x20", b"\0\1\x15\x04\xc0\xa8\x20\0", b"\0\1\x15\x04\xc0\xa8\x21\0"
NEGATED_APL = b"\0\1\x15\x84\xc0\xa8\x20\0"


@pytest.mark.parametrize(
    ("ours", "theirs", "is_explained"),
    [
        (SHORT_APL, LONG_APL, True),
        (SHORT_APL + SHORT_APL, LONG_APL + SHORT_APL, True),
        (LONG_APL, SHORT_APL, False),
        (SHORT_APL, OTHER_APL, False),
        (SHORT_APL, NEGATED_APL, False),
        (SHORT_APL, LONG_APL[:-1], False),
    ],
)
def test_nsd_may_add_only_trailing_zeros_to_apl(zones: ZoneSet, ours: bytes, theirs: bytes, is_explained: bool) -> None:
    query = asked("apl.example.", APL)
    replies = [Reply.of(server, answer(query, [("apl.example.", APL, rdata)])) for server, rdata in (("zonda", ours), ("nsd", theirs))]
    assert left(zones, query, *replies) == ((["APL with trailing zero octets"], set()) if is_explained else ([], {"answer"}))
    assert left(zones, query, replies[0], replace(replies[1], server="bind")) == ([], {"answer"})


def test_names_are_unique() -> None:
    assert len({row.name for row in KNOWN_DIFFERENCES}) == len(KNOWN_DIFFERENCES)
