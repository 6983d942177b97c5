"""The table excuses the peer it names, never the subject, and never a field it does not speak of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from answers import Entry, answer

from compare import Reply, compare
from explanations import TABLE, explain
from faults import Fault, Rule
from message import AA, ANY, CNAME, DS, NS, NSEC, NXDOMAIN, RD, SOA, TC, A, Question
from names import wire_name
from zonedata import ZoneData
from zoneset import ZoneSet

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
"""
SOA_DATA = wire_name("ns.example.") + wire_name("host.example.") + bytes([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5])
NO_DATA: list[Entry] = [("example.", SOA, SOA_DATA, 5)]
ADDRESS, OTHER_ADDRESS = bytes([192, 0, 2, 2]), bytes([192, 0, 2, 9])


@pytest.fixture
def zones(zone_of: Callable[[str, str], ZoneData]) -> ZoneSet:
    other = zone_of("other.", "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nwww 60 A 192.0.2.2\n")
    return ZoneSet({z.apex: z for z in (zone_of("example.", TEXT), other)})


def left(zones: ZoneSet, question: Question, ours: Reply, theirs: Reply) -> tuple[list[str], set[str]]:
    """The names of the classes found and the fields left over."""
    difference = compare(question, ours, theirs)
    assert difference is not None, "the replies were to differ"
    rows, fields = explain(difference, zones, TABLE)
    return [row.name for row in rows], set(fields)


def asked(name: str, qtype: int, payload: int | None = None) -> Question:
    return Question(wire_name(name), qtype, payload=payload)


def test_same_answers_do_not_differ() -> None:
    question = asked("www.example.", A)
    one, two = ("www.example.", A, ADDRESS), ("www.example.", A, OTHER_ADDRESS)
    assert compare(question, Reply.of("zonda", answer(question, [one, two])), Reply.of("nsd", answer(question, [two, one]))) is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"answers": [("www.example.", A, OTHER_ADDRESS)]}, "answer"),
        ({"answers": [("www.example.", A, ADDRESS, 61)]}, "answer"),
        ({"answers": [("www.example.", A, ADDRESS)] * 2}, "doubled"),
        ({"answers": [("www.example.", A, ADDRESS)], "flags": 0}, "aa"),
        ({"answers": [("www.example.", A, ADDRESS)], "flags": AA | TC}, "tc"),
        ({"answers": [("www.example.", A, ADDRESS)], "flags": AA | RD}, "rd"),
        ({"answers": [("www.example.", A, ADDRESS)], "rcode": 3}, "rcode"),
        ({"answers": [("www.example.", A, ADDRESS)], "authority": NO_DATA}, "authority"),
    ],
)
def test_a_wrong_answer_is_unexplained(zones: ZoneSet, wrong: dict[str, list[Entry]], field: str) -> None:
    question = asked("www.example.", A)
    right = Reply.of("nsd", answer(question, [("www.example.", A, ADDRESS)]))
    assert left(zones, question, Reply.of("zonda", answer(question, **wrong)), right) == ([], {field})


def test_silence_and_garbage_are_unexplained(zones: ZoneSet) -> None:
    question = asked("www.example.", A)
    right = Reply.of("nsd", answer(question, [("www.example.", A, ADDRESS)]))
    assert left(zones, question, Reply.of("zonda", None), right) == ([], {"outcome"})
    assert left(zones, question, Reply.of("zonda", b"\0" * 12 + b"x"), right) == ([], {"outcome"})


def alias_case() -> tuple[Question, bytes, bytes]:
    question = asked("alias.example.", NSEC)
    return question, answer(question, authority=NO_DATA), answer(question, [("alias.example.", CNAME, wire_name("www.example."))], NO_DATA)


def cut_case() -> tuple[Question, bytes, bytes]:
    question = asked("cut.example.", NSEC)
    referral = answer(question, authority=[("cut.example.", NS, wire_name("ns.cut.example."))], flags=0)
    return question, referral, answer(question, [("cut.example.", NSEC, wire_name("ns.example.") + b"\0\1\x20")])


def other_zone_case() -> tuple[Question, bytes, bytes]:
    question, alias = asked("out.example.", A), ("out.example.", CNAME, wire_name("www.other."))
    return question, answer(question, [alias, ("www.other.", A, ADDRESS)]), answer(question, [alias])


def name_error_case() -> tuple[Question, bytes, bytes]:
    question = asked("nothing.example.", A, 1232)
    return question, answer(question, authority=NO_DATA, rcode=NXDOMAIN), answer(question, authority=NO_DATA, rcode=NXDOMAIN, flags=0)


def test_a_name_error_without_authority_is_excused_if_nothing_is_said(zones: ZoneSet) -> None:
    question, whole, bare = name_error_case()
    empty = answer(question, rcode=NXDOMAIN, flags=0)
    assert "a name error that opt-out cannot prove" in left(zones, question, Reply.of("zonda", whole), Reply.of("knot", empty))[0]
    assert "aa" in left(zones, question, Reply.of("zonda", whole), Reply.of("knot", bare))[1]
    assert "aa" in left(zones, question, Reply.of("zonda", empty), Reply.of("knot", whole))[1]


@pytest.mark.parametrize(
    ("case", "deviant", "name"),
    [
        (alias_case, "nsd", "NSEC asked at an alias"),
        (cut_case, "bind", "NSEC asked at a delegation"),
        (other_zone_case, "bind", "alias into another zone served or past a cut"),
        (other_zone_case, "knot", "alias into another zone served or past a cut"),
    ],
)
def test_a_habit_excuses_the_peer_that_has_it_only(
    zones: ZoneSet, case: Callable[[], tuple[Question, bytes, bytes]], deviant: str, name: str
) -> None:
    question, usual, odd = case()
    peer = "knot" if deviant != "knot" else "nsd"
    assert left(zones, question, Reply.of("zonda", usual), Reply.of(deviant, odd)) == ([name], set())
    assert left(zones, question, Reply.of(peer, usual), Reply.of(deviant, odd)) == ([name], set())
    assert name not in left(zones, question, Reply.of("zonda", odd), Reply.of(peer, usual))[0]
    assert left(zones, question, Reply.of("zonda", odd), Reply.of(peer, usual))[1]


def test_a_fault_of_a_peer_excuses_it_a_fault_of_ours_does_not(zones: ZoneSet) -> None:
    question = asked("www.example.", A, 1232)
    full = answer(question, authority=[*NO_DATA, ("example.", NSEC, wire_name("ns.example.") + b"\0\1\x20")])
    less = answer(question, authority=NO_DATA)
    broken = Reply("nsd", less, Reply.of("nsd", less).message, faults=(Fault(Rule.NO_DATA),))
    assert left(zones, question, Reply.of("zonda", full), broken) == (["denial left out"], set())
    assert left(zones, question, replace(broken, server="zonda"), Reply.of("knot", full)) == ([], {"authority"})


def test_any_is_free_but_not_its_rcode(zones: ZoneSet) -> None:
    question = asked("www.example.", ANY)
    one, other = answer(question, [("www.example.", A, ADDRESS)]), answer(question, [("www.example.", 13, b"\7RFC8482\0")])
    assert left(zones, question, Reply.of("zonda", one), Reply.of("nsd", other)) == (["QTYPE ANY"], set())
    failed = answer(question, rcode=2)
    assert left(zones, question, Reply.of("zonda", failed), Reply.of("nsd", other))[1] == {"rcode"}


def test_loops_are_free(zones: ZoneSet) -> None:
    question = asked("a.example.", A)
    loop: list[Entry] = [("a.example.", CNAME, wire_name("b.example.")), ("b.example.", CNAME, wire_name("a.example."))]
    ours, theirs = Reply.of("zonda", answer(question, loop)), Reply.of("bind", answer(question, loop, rcode=2))
    assert left(zones, question, ours, theirs) == (["alias loop: RCODE"], set())


def test_any_ttl_of_a_set_with_several(zones: ZoneSet) -> None:
    question = asked("several.example.", A)
    data = [bytes([192, 0, 2, 4]), bytes([192, 0, 2, 5])]
    ours, theirs = (answer(question, [("several.example.", A, d, ttl) for d in data]) for ttl in (60, 90))
    assert left(zones, question, Reply.of("zonda", ours), Reply.of("nsd", theirs)) == (["a set with several TTLs in the text"], set())


def test_ds_through_an_alias_is_free_of_the_same_name_not(zones: ZoneSet) -> None:
    question = asked("www.example.", DS)
    ours, theirs = answer(question, authority=NO_DATA), answer(question, authority=[("example.", SOA, SOA_DATA, 6)])
    assert left(zones, question, Reply.of("zonda", ours), Reply.of("nsd", theirs)) == ([], {"authority"})


def test_odd_messages_are_held_to_their_ruling(zones: ZoneSet) -> None:
    question = Question(wire_name("www.example."), A, raw=b"\0\0", note="odd", right=frozenset({"FORMERR", "silence"}), rfc="1035")
    formerr, noerror = (Reply.of("nsd", answer(asked("www.example.", A), rcode=rcode)) for rcode in (1, 0))
    silence = Reply.of("zonda", None)
    assert left(zones, question, silence, formerr) == (["odd message: the RFC leaves the choice"], set())
    assert left(zones, question, silence, noerror) == (["odd message: not what the RFC says"], set())
    ours = Reply.of("zonda", answer(asked("www.example.", A)))
    assert left(zones, question, ours, formerr) == ([], {"outcome"})


def test_names_are_unique() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)
