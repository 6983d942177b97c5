"""Each law is broken once, by an answer that is right but for that."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from answers import Entry, answer

from compare import Reply
from laws import faults
from message import AA, AAAA, CNAME, DNAME, NS, NSEC, RD, SOA, TC, TXT, A, Question
from names import wire_name
from proofs import Validator
from zonedata import ZoneData
from zoneset import ZoneSet

TEXT = """
$TTL 60
@ SOA ns host 1 2 3 4 5
@ NS ns
ns A 192.0.2.1
www A 192.0.2.2
www A 192.0.2.3
*.wild TXT "w"
alias DNAME www
cut NS ns.cut
ns.cut A 192.0.2.4
ns.cut AAAA 2001:db8::4
"""
SOA_DATA = wire_name("ns.example.") + wire_name("host.example.") + bytes([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5])
ADDRESSES: list[Entry] = [("www.example.", A, bytes([192, 0, 2, n])) for n in (2, 3)]
CUT: list[Entry] = [("cut.example.", NS, wire_name("ns.cut.example."))]
GLUE: list[Entry] = [("ns.cut.example.", A, bytes([192, 0, 2, 4])), ("ns.cut.example.", AAAA, bytes.fromhex("20010db8000000000000000000000004"))]
WWW, NOTHING, BELOW = wire_name("WwW.example."), wire_name("nx.example."), wire_name("x.cut.example.")


@pytest.fixture
def validator(zone_of: Callable[[str, str], ZoneData]) -> Validator:
    zone = zone_of("example.", TEXT)
    return Validator(ZoneSet({zone.apex: zone}))


def check(validator: Validator, question: Question, wire: bytes | None) -> str:
    return "; ".join(map(str, faults(question, Reply.of("zonda", wire), validator)))


@pytest.mark.parametrize(
    ("question", "wire"),
    [
        (q := Question(WWW, A), answer(q, ADDRESSES)),
        (q := Question(NOTHING, A, payload=1232), answer(q, authority=[("example.", SOA, SOA_DATA, 5)], rcode=3)),
        (q := Question(BELOW, A), answer(q, authority=CUT, additional=GLUE, flags=0)),
        (q := Question(BELOW, A), answer(q, authority=CUT, flags=TC)),
        (q := Question(wire_name("a.wild.example."), TXT), answer(q, [("a.wild.example.", TXT, b"\1w")])),
        (
            q := Question(wire_name("x.alias.example."), A),
            answer(
                q,
                [("alias.example.", DNAME, wire_name("www.example.")), ("x.alias.example.", CNAME, wire_name("x.www.example."))],
                [("example.", SOA, SOA_DATA, 5)],
                rcode=3,
            ),
        ),
    ],
)
def test_right_answers_break_no_law(validator: Validator, question: Question, wire: bytes) -> None:
    assert check(validator, question, wire) == ""


@pytest.mark.parametrize(
    ("question", "wire", "fault"),
    [
        (q := Question(WWW, A), None, "no answer"),
        (q, answer(q, ADDRESSES) + b"\0", "no DNS message"),
        (q, answer(q, ADDRESSES).replace(WWW, WWW.lower()), "octet for octet"),
        (q, answer(q, ADDRESSES, flags=AA | RD), "RD is not copied"),
        (q, answer(q, ADDRESSES, flags=AA | 0x80), "RA is set"),
        (q, answer(q, ADDRESSES, flags=AA | 0x20), "AD is set"),
        (q, answer(Question(WWW, A, payload=512), ADDRESSES), "in one of query and answer only: OPT"),
        (q, answer(q, ADDRESSES[:1]), "not that of the zone"),
        (q, answer(q, [*ADDRESSES, ("www.example.", A, bytes(4))]), "not that of the zone"),
        (q, answer(q, [*ADDRESSES, ADDRESSES[0]]), "twice"),
        (q, answer(q, [(*entry[:3], 61) for entry in ADDRESSES]), "a TTL that the zone does not have"),
        (q, answer(q, ADDRESSES, additional=[("www.example.", NSEC, wire_name("a.") + b"\0\1\x40")]), "without DO: NSEC"),
        (q := Question(WWW, A, payload=1232, dnssec=True), answer(Question(WWW, A, payload=1232), ADDRESSES), "in one of query and answer only: DO"),
        (q := Question(WWW, A, tcp=True), answer(q, flags=AA | TC), "TC over TCP"),
        (q := Question(NOTHING, A), answer(q, authority=[("example.", SOA, SOA_DATA)], rcode=3), "of a negative answer: 60, not 5"),
        (q, answer(q, rcode=3), "a negative answer without SOA"),
        (q := Question(BELOW, A), answer(q, authority=CUT, additional=GLUE[:1], flags=0), "missing without TC: ns.cut.example. AAAA"),
        (q, answer(q, authority=CUT, additional=GLUE[1:], flags=0), "missing without TC: ns.cut.example. A "),
        (q := Question(WWW, TXT), answer(q, [("www.example.", TXT, bytes([255]) * 256)] * 3), "than the client has room for"),
    ],
)
def test_each_law(validator: Validator, question: Question, wire: bytes | None, fault: str) -> None:
    assert fault in check(validator, question, wire)


def test_an_odd_question_has_its_own_law(validator: Validator) -> None:
    question = Question(WWW, A, raw=b"\0", note="odd", right=frozenset({"silence"}), rfc="1035")
    assert check(validator, question, None) == ""
    assert "odd: NOERROR, not silence, RFC 1035" in check(validator, question, answer(Question(WWW, A)))
