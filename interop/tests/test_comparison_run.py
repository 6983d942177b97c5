"""Every kind of wrong response is caught, and correct responses pass."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Responder, serving
from response_builder import answer, record

import report
from answer_rules import Rule
from comparison_run import ComparisonRun, Tally
from dns_numbers import AA, AXFR, NS, QR, SOA, TC, TXT, A
from message import Query, Record
from names import wire_name
from run import is_clean
from scenes import Scene, Suite
from servers import Server, Zone
from zone_data import ZoneData, read
from zone_set import ZoneSet

TEXT = """
$TTL 60
@ SOA ns host 1 2 3 4 5
@ NS ns
ns A 192.0.2.1
www A 192.0.2.2
www A 192.0.2.3
txt TXT "t"
"""
EXAMPLE = wire_name("example.")
QUESTIONS = [Query(wire_name(f"{n}.example."), t, payload=p) for n in ("www", "txt", "nx") for t in (A, TXT) for p in (None, 1232)]
Change = Callable[[bytes, bytes], bytes | None]


class Fake(Server):
    """A server that is already running."""

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name, self.address = name, address


def right_answers(zone: ZoneData) -> Callable[[bytes], bytes]:
    """Correct responses from the test zone: positive, NODATA, NXDOMAIN and AXFR."""

    def respond(query: bytes) -> bytes:
        asked, soa = Query.from_wire(query), zone.soa
        held = zone.rrsets.get(asked.name.lower())
        found = (held or {}).get(asked.qtype, frozenset())
        if asked.qtype == AXFR:
            response = answer(asked, [soa, *(r for r in zone.records if r != soa), soa])
        else:
            response = answer(asked, sorted(found), [] if found else [soa._replace(ttl=5)], rcode=0 if held else 3)
        return query[:2] + response[2:]

    return respond


def changed(respond: Callable[[bytes], bytes], change: Change) -> Callable[[bytes], bytes | None]:
    return lambda query: change(query, respond(query))


def changed_again(respond: Responder, change: Change) -> Responder:
    return lambda query: (reply := respond(query)) and change(query, reply)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Scene, ZoneSet]]:
    file = tmp_path / "example.zone"
    file.write_text(TEXT)
    zone = Zone(EXAMPLE, "example.", file)
    suites = [
        Suite("questions", lambda: QUESTIONS),
        Suite("over TCP", lambda: [Query(q.name, q.qtype, payload=q.payload, tcp=True) for q in QUESTIONS]),
    ]
    yield Scene("test", [zone], suites), ZoneSet({EXAMPLE: read(file, "example.")})


def compare_fakes(scene: tuple[Scene, ZoneSet], changes: dict[str, Change], over_udp: Change | None = None) -> Tally:
    """Compares fake servers of these names, each with its mistakes, plus one of all servers over UDP."""
    found, zones = scene
    tally, respond = Tally(), right_answers(zones.zones[EXAMPLE])
    with ExitStack() as stack:
        servers: list[Server] = []
        for name, change in changes.items():
            answers = changed(respond, change)
            address = stack.enter_context(serving(answers, over_udp and changed_again(answers, over_udp)))
            servers.append(Fake(name, address))
        ComparisonRun(servers, found, zones, "zonda" if "zonda" in changes else None, tally).run()
    return tally


def same(_: bytes, reply: bytes) -> bytes:
    return reply


def for_www(change: Callable[[bytes], bytes | None]) -> Change:
    """Applies the change only to the addresses of www."""
    return lambda query, reply: change(reply) if query[12:].lower().startswith(b"\3www\7example\0\0\1") else reply


MISTAKES: dict[str, Change] = {
    "rcode": for_www(lambda reply: reply[:3] + bytes([reply[3] | 2]) + reply[4:]),
    "not authoritative": for_www(lambda reply: reply[:2] + bytes([reply[2] & ~4]) + reply[3:]),
    "another address": for_www(lambda reply: reply.replace(bytes([192, 0, 2, 2]), bytes([192, 0, 2, 9]))),
    "another TTL": for_www(lambda reply: reply.replace(struct.pack(">IH", 60, 4), struct.pack(">IH", 59, 4))),
    "unnecessarily truncated": for_www(lambda reply: reply[:2] + bytes([reply[2] | 2]) + reply[3:]),
    "recursion available": for_www(lambda reply: reply[:3] + bytes([reply[3] | 0x80]) + reply[4:]),
    "cut": for_www(lambda reply: reply[:-3]),
    "SOA with its own TTL": lambda _, reply: reply.replace(struct.pack(">HHI", SOA, 1, 5), struct.pack(">HHI", SOA, 1, 60)),
}


def test_correct_responses_pass(scene: tuple[Scene, ZoneSet]) -> None:
    tally = compare_fakes(scene, {"zonda": same, "nsd": same, "knot": same})
    assert is_clean(tally, "zonda"), report.text(tally, "zonda")
    assert sum(tally.asked.values()) == 2 * len(QUESTIONS)
    assert "No unexplained differences" in report.text(tally, "zonda")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_caught(scene: tuple[Scene, ZoneSet], mistake: str) -> None:
    tally = compare_fakes(scene, {"zonda": MISTAKES[mistake], "nsd": same, "knot": same})
    assert not is_clean(tally, "zonda")
    assert {(a, b) for a, b, _ in tally.unexplained} == {("zonda", "nsd"), ("zonda", "knot")}
    shown = report.text(tally, "zonda")
    assert "UNEXPLAINED" in shown and "repeat: interop/run.py --hold test" in shown


@pytest.mark.parametrize("mistake", ["rcode", "another address", "cut"])
def test_a_mistake_of_one_peer_is_not_excused(scene: tuple[Scene, ZoneSet], mistake: str) -> None:
    """No RFC explains it, and it could be a mistake that the subject shares with the other peer."""
    tally = compare_fakes(scene, {"zonda": same, "nsd": MISTAKES[mistake], "knot": same})
    assert {(a, b) for a, b, _ in tally.unexplained} == {("zonda", "nsd")}


def test_a_mistake_of_all_servers_is_caught_by_a_rule(scene: tuple[Scene, ZoneSet]) -> None:
    wrong = MISTAKES["another address"]
    tally = compare_fakes(scene, {"zonda": wrong, "nsd": wrong})
    assert not tally.unexplained and not is_clean(tally, "zonda")


def test_silence_is_caught(scene: tuple[Scene, ZoneSet], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("comparison_run.TIMEOUT_S", 0.1)
    tally = compare_fakes(scene, {"zonda": for_www(lambda _: None), "nsd": same})
    assert not is_clean(tally, "zonda") and ("zonda", Rule.NO_RESPONSE, "") in tally.violations


def test_without_a_subject_all_pairs_are_compared(scene: tuple[Scene, ZoneSet]) -> None:
    tally = compare_fakes(scene, {"nsd": same, "knot": MISTAKES["rcode"], "bind": same})
    assert {(a, b) for a, b, _ in tally.unexplained} == {("nsd", "knot"), ("knot", "bind")}


LOST = [Record(wire_name("www.example."), A, 1, 60, bytes([192, 0, 2, 2])), Record(EXAMPLE, NS, 1, 60, wire_name("ns.example."))]


@pytest.mark.parametrize("lost", LOST)
def test_a_transfer_that_lacks_a_record_is_caught(scene: tuple[Scene, ZoneSet], lost: Record) -> None:
    gone = record(lost)

    def without(query: bytes, reply: bytes) -> bytes:
        if query[-3:-2] != b"\xfc":
            return reply
        return reply[:6] + struct.pack(">H", struct.unpack_from(">H", reply, 6)[0] - 1) + reply[8:].replace(gone, b"")

    tally = compare_fakes(scene, {"zonda": without, "nsd": same})
    assert not tally.unexplained and not is_clean(tally, "zonda")
    assert [line for line in tally.transfers if line.startswith("zonda: missing")]


def test_necessary_truncation_is_explained(scene: tuple[Scene, ZoneSet]) -> None:
    """An RRset fits only if its owner names are compressed."""
    found, zones = scene
    big = wire_name("big.example.")
    zones.zones[EXAMPLE].rrsets[big] = {TXT: frozenset(Record(big, TXT, 1, 60, bytes([20]) + bytes([i]) * 20) for i in range(13))}
    found.suites[:] = [Suite("big", lambda: [Query(big, TXT)])]

    def compress(query: bytes, reply: bytes) -> bytes:
        return reply[:29] + reply[29:].replace(big, b"\xc0\x0c") if query[12:].startswith(big) else reply

    def truncate(query: bytes, reply: bytes) -> bytes:
        return query[:2] + struct.pack(">5H", QR | AA | TC, 1, 0, 0, 0) + query[12:] if len(reply) > 512 else reply

    tally = compare_fakes(scene, {"zonda": compress, "nsd": same}, over_udp=truncate)
    assert is_clean(tally, "zonda"), report.text(tally, "zonda")
    assert [entry.name for entry, _, _ in tally.classes] == ["truncation: different contents or compression"]
