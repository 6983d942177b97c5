"""The zone files of this folder are current, and are parsed correctly."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dns_numbers import CNAME, DNAME, NS, TXT, A
from names import from_labels, labels, wire_name
from zone_data import ZoneData
from zone_text import ZONES, generated

Shipped = Callable[[str, str], ZoneData]


def test_signed_zones_are_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `sign-zones` after changing a zone file."""
    if not shutil.which("dnssec-signzone"):
        pytest.skip("dnssec-signzone is not installed (help: apt-get install bind9-utils)")
    loader = importlib.machinery.SourceFileLoader("sign_zones", str(ZONES.parent / "sign-zones"))
    spec = importlib.util.spec_from_loader("sign_zones", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.sign_all(tmp_path)
    made = {f.name: f.read_text() for f in tmp_path.iterdir()}
    assert made == {f.name: f.read_text() for f in (ZONES / "signed").iterdir()}


def test_generate() -> None:
    assert generated("$GENERATE 9-11 a$ A 192.0.2.$") == ["a9 A 192.0.2.9", "a10 A 192.0.2.10", "a11 A 192.0.2.11"]
    assert generated("a A 192.0.2.1") == ["a A 192.0.2.1"]


def test_the_deepest_name_has_the_maximum_length(shipped: Shipped) -> None:
    deepest = max(shipped("x.", "deep.zone").owners, key=len)
    assert len(deepest) == 255 and len(labels(deepest)) == 127


def test_facts_of_the_zone_data(shipped: Shipped) -> None:
    zone = shipped("plain.example.", "oddities.zone")

    def name(relative: str) -> bytes:
        return wire_name(f"{relative}.plain.example.").lower()

    assert zone.cut_above(name("a.hidden.under.inzone")) == name("inzone")
    assert zone.cut_above(name("www")) is None and zone.cut_above(zone.apex) is None
    assert zone.dname_above(name("a.dname")) == name("dname") and zone.dname_above(name("dname")) is None
    assert name("b.c.ent") in zone.names and name("b.c.ent") not in zone.owners
    assert zone.rrset(name("mixed.case"), TXT) and zone.rrset(name("loop1"), CNAME) and zone.rrset(name("dname"), DNAME)
    assert from_labels([b"dot.in.label", *labels(zone.apex)]) in zone.owners
    assert len(zone.rrset(name("g512"), NS)) == 7 and len(zone.rrset(name("a3840"), A)) == 240


def test_each_ttl_is_kept(shipped: Shipped) -> None:
    zone = shipped("loose.example.", "loose.zone")
    assert {r.ttl for r in zone.rrset(wire_name("ttls.loose.example."), A)} == {300, 100, 200}
    assert len(zone.rrset(wire_name("twice.loose.example."), A)) == 1
