"""What the comparison of load decisions asks of Zonda, and what it leaves free."""

from __future__ import annotations

import dns.name
import pytest

from decisions import Case, Contents, Decision, Decisions, contents_of
from mutations import MUTATIONS, ZONE, text

ONE = frozenset({(dns.name.from_text("a."), 1, b"1")})
TWO = frozenset({(dns.name.from_text("a."), 1, b"2")})
REFUSES, UNKNOWN = Decision(False), Decision(None)


def loads(contents: Contents = ONE, log: str = "") -> Decision:
    return Decision(True, contents, log)


def case(ours: Decision, *peers: Decision) -> Case:
    return Case(1, "", ours, dict(zip(("nsd", "knot", "bind"), peers, strict=True)))


@pytest.mark.parametrize(
    ("ours", "peers", "difference"),
    [
        (REFUSES, (loads(), loads(), REFUSES), "refused, and at least two others load it"),
        (REFUSES, (loads(ONE), loads(TWO), REFUSES), None),  # they read it as something else each
        (REFUSES, (loads(), REFUSES, REFUSES), None),
        (loads(), (loads(), REFUSES, REFUSES), None),
        (loads(), (REFUSES, REFUSES, REFUSES), "loaded, and all others refuse it"),
        (loads(), (REFUSES, REFUSES, UNKNOWN), None),
        (loads(TWO), (loads(ONE), loads(ONE), REFUSES), "loaded with other records than all others"),
        (loads(TWO), (loads(ONE), loads(ONE), loads(TWO)), None),
    ],
)
def test_two_others_decide(ours: Decision, peers: tuple[Decision, ...], difference: str | None) -> None:
    assert case(ours, *peers).difference() == difference


@pytest.mark.parametrize(
    ("log", "is_explained"),
    [
        ("warning: the owner is in quotes", False),  # NSD and BIND load that
        ("warning: the owner is in quotes\nwarning: there is no TTL: neither here", False),  # so does NSD
        ("warning: the owner is in quotes\nwarning: a record out of the zone", False),  # so does BIND
        ("warning: there is no TTL: neither here\nwarning: a record below a DNAME", True),
        ("", False),
    ],
)
def test_oddities_explain_what_nobody_loads_together(log: str, is_explained: bool) -> None:
    found = Decisions()
    found.note(case(loads(log=log), REFUSES, REFUSES, REFUSES))
    assert (len(found.explained), len(found.unexplained)) == ((1, 0) if is_explained else (0, 1))


def test_a_seed_makes_one_text() -> None:
    assert text(7) == text(7)
    texts = {text(seed) for seed in range(300)}
    assert len(texts) > 250 and ZONE not in texts
    assert len(set(MUTATIONS)) > 10


def test_printed_records_are_read_in_canonical_form() -> None:
    upper, lower = contents_of("@ 60 IN NS NS.TEST.\n", "a."), contents_of("A. 30 IN NS ns.test.\n", "a.")
    assert upper == lower and upper is not None and len(upper) == 1
    assert contents_of("@ 60 IN BOGUS\n", "a.") is None
