"""What the NSEC and NSEC3 records of the signed zones prove: with all records, and with one missing."""

from collections.abc import Callable

import pytest

from denial_of_existence import Denial, canonical_order, denial
from dns_numbers import CNAME, DNAME, DS, NS, NSEC, NSEC3, SOA, TXT, A
from names import ancestors, is_at_or_below, wire_name
from query_generation import nearby_absent_names
from zone_data import ZoneData

Shipped = Callable[[str, str], ZoneData]
SIGNED = ["nsec1.example.", "nsec3.example.", "n3out.example."]


def zone_and_denial(shipped: Shipped, apex: str) -> tuple[ZoneData, Denial]:
    zone = shipped(apex, f"signed/{apex}zone")
    return zone, denial((r for r in zone.records if r.rtype in (NSEC, NSEC3)), zone.apex)


def is_plain(name: bytes, zone: ZoneData) -> bool:
    """Neither below a zone cut nor below a DNAME."""
    return zone.cut_above(name) is None and zone.dname_above(name) is None


def has_wildcard(name: bytes, zone: ZoneData) -> bool:
    encloser = next(a for a in ancestors(name) if a in zone.names)
    return b"\1*" + encloser in zone.names


def opted_out(zone: ZoneData) -> set[bytes]:
    """Unsigned delegations and empty non-terminals above only these: opt-out makes them look nonexistent (RFC 5155 6)."""
    if zone.apex != wire_name("n3out.example."):
        return set()
    secure = {a for owner, types in zone.owners.items() for a in ancestors(owner) if zone.cut_above(owner) is None or DS in types}
    return set(zone.names) - secure


@pytest.mark.parametrize("apex", SIGNED)
def test_only_names_that_do_not_exist_are_denied(shipped: Shipped, apex: str) -> None:
    zone, proof = zone_and_denial(shipped, apex)
    absent = {n for owner in zone.names for n in nearby_absent_names(owner)} - zone.names
    absent = {n for n in absent if is_at_or_below(n, zone.apex) and is_plain(n, zone)}
    assert len(absent) > 1000
    for name in sorted(absent)[::5]:
        assert proof.proves_nxdomain(name) == (not has_wildcard(name, zone)), name
        assert proof.proves_no_closer_match(name, next(a for a in ancestors(name) if a in zone.names)), name
    for name in zone.names - opted_out(zone):
        assert not proof.proves_nxdomain(name), name


@pytest.mark.parametrize("apex", SIGNED)
def test_names_that_opt_out_makes_unprovable_are_recognized(shipped: Shipped, apex: str) -> None:
    zone, proof = zone_and_denial(shipped, apex)
    hidden = {n for n in opted_out(zone) - zone.owners.keys() if is_plain(n, zone)}
    assert bool(hidden) == (apex == "n3out.example.")
    names = {b"\2nx" + n for n in zone.names if len(n) < 250} - zone.names
    for name in (n for n in names if is_plain(n, zone)):
        encloser = name[3:]
        left = next(a for a in ancestors(encloser) if a not in hidden)
        unprovable = encloser in hidden and b"\1*" + left in zone.names
        assert proof.opt_out_hides_encloser(encloser, name) == unprovable, name
        assert proof.proves_nxdomain(name) == (not has_wildcard(name, zone) and not unprovable), name


@pytest.mark.parametrize("apex", SIGNED)
def test_only_types_that_do_not_exist_are_denied(shipped: Shipped, apex: str) -> None:
    zone, proof = zone_and_denial(shipped, apex)
    unsure = opted_out(zone)
    for name, types in zone.owners.items():
        if is_plain(name, zone):
            for qtype in (A, TXT, DNAME, 65399):
                assert proof.proves_nodata(name, qtype) == (qtype not in types and CNAME not in types), (name, qtype)
        if NS in types and SOA not in types and zone.cut_above(name) == name:
            assert proof.proves_no_ds(name) == (DS not in types), name
            assert name in unsure or not proof.proves_nodata(name, A), name


@pytest.mark.parametrize("apex", SIGNED)
def test_an_empty_non_terminal_has_no_data(shipped: Shipped, apex: str) -> None:
    _, proof = zone_and_denial(shipped, apex)
    assert proof.proves_nodata(wire_name(f"c.ent.{apex}"), A)
    assert proof.proves_nodata(wire_name(f"nx.star3.{apex}"), A), "the asterisk of star3 is an empty non-terminal, and a wildcard without data"


@pytest.mark.parametrize("apex", SIGNED)
def test_every_record_of_a_proof_is_needed(shipped: Shipped, apex: str) -> None:
    zone = shipped(apex, f"signed/{apex}zone")
    name = wire_name(f"nx.{apex}")
    records = {r for r in zone.records if r.rtype in (NSEC, NSEC3)}
    needed = [r for r in records if not denial(records - {r}, zone.apex).proves_nxdomain(name)]
    # RFC 5155 7.2.2: closest encloser, next closer name, wildcard. RFC 4035 3.1.3.2: name and wildcard.
    assert len(needed) == (2 if apex == "nsec1.example." else 3)
    assert denial(needed, zone.apex).proves_nxdomain(name)


def test_order_is_canonical() -> None:
    """The example of RFC 4034 6.1."""
    above = ["example.", "a.example.", "yljkjljk.a.example.", "Z.a.example.", "zABC.a.EXAMPLE."]
    wires = [wire_name(n).lower() for n in (*above, "z.example.", r"\001.z.example.", "*.z.example.", r"\200.z.example.")]
    assert sorted(wires[::-1], key=canonical_order) == wires
