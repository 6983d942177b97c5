"""Which load decisions of Zonda are accepted."""

from __future__ import annotations

import os
from pathlib import Path

import dns.name
import pytest

from load_decisions import CHECKERS, ODDITIES, Contents, LoadCase, LoadComparison, LoadDecision, Oddity, check_logs, contents_of
from names import wire_name
from servers import ProgramNotFound, Zonda, Zone
from zone_mutations import BASE_ZONE, MUTATIONS, mutated_zone

ONE = frozenset({(dns.name.from_text("a."), 1, b"1")})
TWO = frozenset({(dns.name.from_text("a."), 1, b"2")})
REFUSES, UNKNOWN = LoadDecision(False), LoadDecision(None)


def loads(contents: Contents = ONE, log: str = "") -> LoadDecision:
    return LoadDecision(True, contents, log)


def case(ours: LoadDecision, *peers: LoadDecision) -> LoadCase:
    return LoadCase(1, "", ours, dict(zip(("nsd", "knot", "bind"), peers, strict=True)))


@pytest.mark.parametrize(
    ("ours", "peers", "difference"),
    [
        (REFUSES, (loads(), loads(), REFUSES), "refused, but at least two others load it"),
        (REFUSES, (loads(ONE), loads(TWO), REFUSES), None),  # they read it as something else each
        (REFUSES, (loads(), REFUSES, REFUSES), None),
        (loads(), (loads(), REFUSES, REFUSES), None),
        (loads(), (REFUSES, REFUSES, REFUSES), "loaded, but all others refuse it"),
        (loads(), (REFUSES, REFUSES, UNKNOWN), None),
        (loads(TWO), (loads(ONE), loads(ONE), REFUSES), "loaded with records that no other has"),
        (loads(TWO), (loads(ONE), loads(ONE), loads(TWO)), None),
    ],
)
def test_two_peers_decide(ours: LoadDecision, peers: tuple[LoadDecision, ...], difference: str | None) -> None:
    assert case(ours, *peers).difference() == difference


@pytest.mark.parametrize(
    ("log", "is_explained"),
    [
        ("warning: the owner is in quotes", False),  # NSD and BIND load that
        ("warning: the owner is in quotes\nwarning: there is no TTL: neither here", False),  # so does NSD
        ("warning: the owner is in quotes\nwarning: an out-of-zone record", False),  # so does BIND
        ("warning: there is no TTL: neither here\nwarning: a record below a DNAME", True),
        ("warning: KEY, SIG or NXT beside CNAME", True),  # BIND 9.18 loads that, 9.21 does not
        ("", False),
    ],
)
def test_oddities_explain_zones_that_no_peer_loads(log: str, is_explained: bool) -> None:
    found = LoadComparison()
    found.add(case(loads(log=log), REFUSES, REFUSES, REFUSES))
    assert (len(found.explained), len(found.unexplained)) == ((1, 0) if is_explained else (0, 1))


@pytest.mark.parametrize(("options", "is_usable"), [("-p, --print", True), ("-v, --verbose", False)])
def test_a_checker_that_cannot_print_zones_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, is_usable: bool) -> None:
    program = tmp_path / "kzonecheck"
    program.write_text(f"#!/bin/sh\necho '{options}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert CHECKERS["knot"].is_usable() == is_usable


SOA, APEX_NS = "@ 60 SOA ns host 1 2 3 4 5\n", "@ 60 NS ns.elsewhere.test.\n"
ZONES_WITH_ODDITIES = {
    "no TTL before the SOA record": "@ NS ns.elsewhere.test.\n" + SOA,
    "no blank beside a quote": SOA + APEX_NS + '@ 60 TXT "a"b\n',
    "quoted owner": SOA + APEX_NS + '"q" 60 A 192.0.2.1\n',
    "out-of-zone owner": SOA + APEX_NS + "out.test. 60 A 192.0.2.1\n",
    "records below a DNAME": SOA + APEX_NS + "d 60 DNAME e\nx.d 60 A 192.0.2.1\n",
    "DNAME and NS": SOA + APEX_NS + "d 60 DNAME e\nd 60 NS ns.elsewhere.test.\n",
    "names below DNAME and NS": SOA + APEX_NS + "d 60 DNAME e\nd 60 NS ns.elsewhere.test.\nx.d 60 TXT x\n",
    "CAA tag that is not alphanumeric": SOA + APEX_NS + '@ 60 CAA 0 is-sue "ca.example"\n',
    "no NS at the apex": SOA,
    "octets that do not fit their type": SOA + APEX_NS + "a 60 LOC \\# 1 00\n",
    "KEY beside CNAME": SOA + APEX_NS + "c 60 CNAME d\nc 60 KEY 256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3\n",
}


@pytest.mark.parametrize("oddity", [oddity for oddity in ODDITIES if oddity.zonda != "(?!)"], ids=lambda oddity: oddity.name)
def test_oddities_match_the_messages_of_zonda(oddity: Oddity, tmp_path: Path) -> None:
    try:
        Zonda.program()
    except ProgramNotFound as missing:
        pytest.skip(str(missing))
    zone = Zone(wire_name("a."), "a.", tmp_path / "zone")
    zone.file.write_text(ZONES_WITH_ODDITIES[oddity.name])
    log = check_logs(Zonda, [zone])["a."]
    assert oddity.is_in(LoadCase(1, "", loads(log=log), {})), log


def test_mutations_are_deterministic() -> None:
    assert mutated_zone(7) == mutated_zone(7)
    texts = {mutated_zone(seed) for seed in range(300)}
    assert len(texts) > 250 and BASE_ZONE not in texts
    assert len(set(MUTATIONS)) > 10


def test_printed_records_are_read_in_canonical_form() -> None:
    upper, lower = contents_of("@ 60 IN NS NS.TEST.\n", "a."), contents_of("A. 30 IN NS ns.test.\n", "a.")
    assert upper == lower and upper is not None and len(upper) == 1
    assert contents_of("@ 60 IN BOGUS\n", "a.") is None
