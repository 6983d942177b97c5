"""Each rule is violated once by an otherwise correct response."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from response_builder import Entry, answer

from answer_checks import violations
from answer_comparison import Reply
from dns_numbers import AA, AAAA, CNAME, DNAME, NS, NSEC, RD, SOA, TC, TXT, A
from dnssec_validation import Validator
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


def check(validator: Validator, query: Query, wire: bytes | None) -> str:
    return "; ".join(map(str, violations(query, Reply.of("zonda", wire), validator)))


@pytest.mark.parametrize(
    ("query", "wire"),
    [
        (q := Query(WWW, A), answer(q, ADDRESSES)),
        (q := Query(NOTHING, A, payload=1232), answer(q, authority=[("example.", SOA, SOA_DATA, 5)], rcode=3)),
        (q := Query(BELOW, A), answer(q, authority=CUT, additional=GLUE, flags=0)),
        (q := Query(BELOW, A), answer(q, authority=CUT, flags=TC)),
        (q := Query(wire_name("a.wild.example."), TXT), answer(q, [("a.wild.example.", TXT, b"\1w")])),
        (
            q := Query(wire_name("x.alias.example."), A),
            answer(
                q,
                [("alias.example.", DNAME, wire_name("www.example.")), ("x.alias.example.", CNAME, wire_name("x.www.example."))],
                [("example.", SOA, SOA_DATA, 5)],
                rcode=3,
            ),
        ),
    ],
)
def test_correct_responses_have_no_violations(validator: Validator, query: Query, wire: bytes) -> None:
    assert check(validator, query, wire) == ""


@pytest.mark.parametrize(
    ("query", "wire", "violation"),
    [
        (q := Query(WWW, A), None, "no response"),
        (q, answer(q, ADDRESSES) + b"\0", "not a well-formed DNS message"),
        (q, answer(q, ADDRESSES).replace(WWW, WWW.lower()), "not an exact copy"),
        (q, answer(q, ADDRESSES, flags=AA | RD), "RD is not copied"),
        (q, answer(q, ADDRESSES, flags=AA | 0x80), "RA is set"),
        (q, answer(q, ADDRESSES, flags=AA | 0x20), "AD is set"),
        (q, answer(Query(WWW, A, payload=512), ADDRESSES), "in only one of query and response: OPT"),
        (q, answer(q, ADDRESSES[:1]), "not that of the zone"),
        (q, answer(q, [*ADDRESSES, ("www.example.", A, bytes(4))]), "not that of the zone"),
        (q, answer(q, [*ADDRESSES, ADDRESSES[0]]), "occurs twice"),
        (q, answer(q, [(*entry[:3], 61) for entry in ADDRESSES]), "a TTL is not in the zone"),
        (q, answer(q, ADDRESSES, additional=[("www.example.", NSEC, wire_name("a.") + b"\0\1\x40")]), "without DO: NSEC"),
        (q := Query(WWW, A, payload=1232, dnssec=True), answer(Query(WWW, A, payload=1232), ADDRESSES), "in only one of query and response: DO"),
        (q := Query(WWW, A, tcp=True), answer(q, flags=AA | TC), "TC over TCP"),
        (q := Query(NOTHING, A), answer(q, authority=[("example.", SOA, SOA_DATA)], rcode=3), "not the negative TTL: 60, not 5"),
        (q, answer(q, rcode=3), "a negative response without SOA"),
        (q := Query(BELOW, A), answer(q, authority=CUT, additional=GLUE[:1], flags=0), "missing without TC: ns.cut.example. AAAA"),
        (q, answer(q, authority=CUT, additional=GLUE[1:], flags=0), "missing without TC: ns.cut.example. A "),
        (q := Query(WWW, TXT), answer(q, [("www.example.", TXT, bytes([255]) * 256)] * 3), "exceeds the client's maximum size"),
    ],
)
def test_each_rule_violation_is_found(validator: Validator, query: Query, wire: bytes | None, violation: str) -> None:
    assert violation in check(validator, query, wire)


def test_only_the_outcome_of_an_unusual_query_is_checked(validator: Validator) -> None:
    query = Query(WWW, A, raw=b"\0", oddity="odd", acceptable=frozenset({"silence"}), rfc="1035")
    assert check(validator, query, None) == ""
    assert "odd: NOERROR, not silence, RFC 1035" in check(validator, query, answer(Query(WWW, A)))
