"""Responses from the signed zones validate, and no longer do if a record is removed or modified."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from response_builder import answer

from answer_comparison import Reply
from dns_numbers import DS, NS, NSEC, NSEC3, RRSIG, SOA, TXT, A
from dnssec_validation import Validator
from message import Query, Record
from names import wire_name
from zone_data import ZoneData
from zone_set import ZoneSet, covered_type

Shipped = Callable[[str, str], ZoneData]
APEXES = ["nsec1.example.", "nsec3.example.", "n3out.example."]


def signed_set(zone: ZoneData, owner: bytes, rtype: int) -> list[Record]:
    return [*zone.rrset(owner, rtype), *(r for r in zone.rrset(owner, RRSIG) if covered_type(r) == rtype)]


def check(zone: ZoneData, query: Query, wire: bytes) -> str:
    reply = Reply.of("zonda", wire)
    assert reply.response is not None
    return "; ".join(map(str, Validator(ZoneSet({zone.apex: zone})).violations(query, reply.response)))


def all_denial(zone: ZoneData) -> list[Record]:
    return [r for owner, types in zone.rrsets.items() for t in (NSEC, NSEC3) if t in types for r in signed_set(zone, owner, t)]


@pytest.fixture(params=APEXES)
def zone(request: pytest.FixtureRequest, shipped: Shipped) -> ZoneData:
    return shipped(request.param, f"signed/{request.param}zone")


def named(zone: ZoneData, relative: str) -> bytes:
    return wire_name(relative + ".")[:-1] + zone.apex


def test_an_rrset_needs_its_signature(zone: ZoneData) -> None:
    query = Query(named(zone, "www"), A, payload=1232, dnssec=True)
    whole = signed_set(zone, query.name, A)
    assert check(zone, query, answer(query, whole)) == ""
    assert "without RRSIG" in check(zone, query, answer(query, [r for r in whole if r.rtype == A]))
    assert "without the RRset it covers" in check(zone, query, answer(query, [r for r in whole if r.rtype == RRSIG]))


def test_a_modified_rrset_does_not_validate(zone: ZoneData) -> None:
    query = Query(named(zone, "www"), A, payload=1232, dnssec=True)
    whole = signed_set(zone, query.name, A)
    assert "does not verify" in check(zone, query, answer(query, whole[1:]))
    assert "does not verify" in check(zone, query, answer(query, [whole[0]._replace(rdata=b"\1\1\1\1"), *whole[1:]]))


def test_a_wildcard_needs_its_proof(zone: ZoneData) -> None:
    query = Query(named(zone, "some.wild"), TXT, payload=1232, dnssec=True)
    made = [r._replace(owner=query.name) for r in signed_set(zone, named(zone, "*.wild"), TXT)]
    assert check(zone, query, answer(query, made, all_denial(zone))) == ""
    assert "no proof that the wildcard applies" in check(zone, query, answer(query, made))


def test_negative_answers_need_their_proof(zone: ZoneData) -> None:
    soa = signed_set(zone, zone.apex, SOA)
    for relative, qtype, rcode in (("nx", A, 3), ("www", TXT, 0), ("c.ent", A, 0), ("some.wild", DS, 0), ("secure", 65399, 0)):
        query = Query(named(zone, relative), qtype, payload=1232, dnssec=True)
        whole = answer(query, authority=[*soa, *all_denial(zone)], rcode=rcode)
        assert ("no proof" in check(zone, query, whole)) == (relative == "secure"), relative
        assert "no proof" in check(zone, query, answer(query, authority=soa, rcode=rcode)), relative


def test_a_name_that_exists_cannot_be_denied(zone: ZoneData) -> None:
    query = Query(named(zone, "www"), A, payload=1232, dnssec=True)
    wire = answer(query, authority=[*signed_set(zone, zone.apex, SOA), *all_denial(zone)], rcode=3)
    assert "no proof that the name does not exist: www" in check(zone, query, wire)


def test_a_referral_needs_ds_or_a_proof_of_its_absence(zone: ZoneData) -> None:
    for relative, has_ds in (("secure", True), ("inzone", False)):
        query = Query(named(zone, relative), A, payload=1232, dnssec=True)
        servers = list(zone.rrset(query.name, NS))
        proof = signed_set(zone, query.name, DS) if has_ds else all_denial(zone)
        assert check(zone, query, answer(query, authority=[*servers, *proof], flags=0)) == ""
        assert "neither DS nor a proof of" in check(zone, query, answer(query, authority=servers, flags=0))


def test_without_do_nothing_is_validated(zone: ZoneData) -> None:
    query = Query(named(zone, "www"), A, payload=1232)
    assert check(zone, query, answer(query, [*zone.rrset(query.name, A)])) == ""
