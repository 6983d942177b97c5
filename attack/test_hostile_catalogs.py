"""Catalogs (RFC 9432) of very many members, that replace all of them at once, or whose members make no sense."""

from __future__ import annotations

import time
from collections.abc import Iterator

import dns.message
import dns.name
import dns.rcode
import dns.rrset
import pytest

from daemon import HOST, Daemon
from test_hostile_primaries import Messages, Primary, refresh, transfer

CATALOG = dns.name.from_text("victim.")
MEMBERS = 10_000
RECORDS_PER_MESSAGE = 600
SLOWEST_S = 3.0  # a query while members come and go, on a busy machine


def soa(serial: int) -> dns.rrset.RRset:
    return dns.rrset.from_text(CATALOG, 60, "IN", "SOA", f"invalid. invalid. {serial} 3600 1 604800 60")


def record(owner: str, rtype: str, text: str) -> dns.rrset.RRset:
    return dns.rrset.from_text(dns.name.from_text(owner, CATALOG), 60, "IN", rtype, text)


BASE = [record("@", "NS", "invalid."), record("version", "TXT", '"2"')]


class CatalogPrimary(Primary):
    """Serves the catalog `victim.` with these records."""

    def __init__(self) -> None:
        self.records: list[dns.rrset.RRset] = []
        super().__init__()
        self.respond = self.send_catalog

    def send_catalog(self, query: dns.message.Message) -> Messages:
        records = [soa(self.serial), *BASE, *self.records, soa(self.serial)]
        for start in range(0, len(records), RECORDS_PER_MESSAGE):
            yield transfer(query, *records[start : start + RECORDS_PER_MESSAGE])

    def publish(self, server: Daemon, records: list[dns.rrset.RRset]) -> None:
        """Serves another version, and has it transferred."""
        self.records, self.serial = records, self.serial + 1
        refresh(server)


@pytest.fixture
def primary() -> Iterator[CatalogPrimary]:
    one = CatalogPrimary()
    yield one
    one.close()


def consumer(daemon, primary: CatalogPrimary) -> Daemon:
    server = daemon()
    (server.zones / "member.zone").write_text((server.zones / "example.zone").read_text())
    server.configure(
        f'[template.default]\nprimaries = ["{HOST}:9"]\nmin-retry-s = 600\nmax-retry-s = 600\n'
        f'[[zone]]\nname = "victim"\ncatalog = "consume"\nmin-retry-s = 1\nprimaries = ["{HOST}:{primary.port}"]\n'
    )
    return server.start()


def members(prefix: str, count: int) -> list[dns.rrset.RRset]:
    return [record(f"m{number}.zones", "PTR", f"{prefix}{number}.test.") for number in range(count)]


def is_member(server: Daemon, name: str) -> bool:
    """A member that is not transferred yet is answered with SERVFAIL, other names are refused."""
    return server.ask(name, "SOA", timeout_s=10).rcode() in (dns.rcode.SERVFAIL, dns.rcode.NOERROR)


def wait_and_ask(server: Daemon, condition) -> float:
    """Waits for a condition while another zone is asked all the time; the slowest answer, in seconds."""
    slowest_s, ends_at = 0.0, time.monotonic() + 120
    while True:
        began = time.monotonic()
        assert server.ask("www.example.", timeout_s=20).rcode() == dns.rcode.NOERROR
        slowest_s = max(slowest_s, time.monotonic() - began)
        if condition():
            return slowest_s
        assert time.monotonic() < ends_at, server.log_text()


def test_a_catalog_that_replaces_very_many_members_delays_nobody(daemon, primary: CatalogPrimary):
    server = consumer(daemon, primary)
    empty_mb = server.rss_mb()
    slowest_s = 0.0
    for version in range(3):
        prefix = "ab"[version % 2]
        primary.publish(server, members(prefix, MEMBERS))
        last = f"{prefix}{MEMBERS - 1}.test."
        slowest_s = max(slowest_s, wait_and_ask(server, lambda last=last: is_member(server, last)))
    assert slowest_s < SLOWEST_S
    full_mb = server.rss_mb()
    assert full_mb - empty_mb < 150, "some kilobytes for each member"
    wait_and_ask(server, lambda: not is_member(server, "b1.test."))
    primary.publish(server, [])
    wait_and_ask(server, lambda: not is_member(server, "a1.test.") and not is_member(server, f"a{MEMBERS - 1}.test."))
    assert "panicked" not in server.log.read_text()


ODD = {
    "no version": ([record("x.zones", "PTR", "new.test.")], False),
    "two versions": ([record("version", "TXT", '"3"'), record("x.zones", "PTR", "new.test.")], False),
    "the root as a member": ([record("x.zones", "PTR", ".")], True),
    "itself as a member": ([record("x.zones", "PTR", "victim.")], True),
    "a configured zone": ([record("x.zones", "PTR", "example.")], True),
    "two names for a member": ([record("x.zones", "PTR", "new.test."), record("x.zones", "PTR", "newer.test.")], False),
    "a member twice": ([record("x.zones", "PTR", "new.test."), record("y.zones", "PTR", "new.test.")], False),
    "no PTR record": ([record("x.zones", "TXT", '"new.test."')], True),
    "deep below": ([record("a.b.c.d.x.zones", "PTR", "new.test.")], True),
    "an owner for itself": ([record("m1.zones", "PTR", "old1.test."), record("coo.m1.zones", "PTR", "victim.")], True),
    "many groups": (
        [record("x.zones", "PTR", "new.test.")] + [record("group.x.zones", "TXT", f'"{number}"') for number in range(500)],
        True,
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_catalog_that_makes_no_sense_costs_no_zone(daemon, primary: CatalogPrimary, odd: str):
    global_base = list(BASE)
    server = consumer(daemon, primary)
    primary.publish(server, members("old", 3))
    server.wait_until(lambda: is_member(server, "old2.test."))
    records, _ = ODD[odd]
    names = {str(one.name) for one in records}
    kept = [one for one in members("old", 3) if str(one.name) not in names]
    if odd == "no version":
        BASE[:] = [one for one in BASE if not str(one.name).startswith("version")]
    try:
        primary.publish(server, kept + records)
        server.wait_until(lambda: server.serial("victim.") == primary.serial)
        time.sleep(0.5)  # members are placed in steps
        assert is_member(server, "old0.test."), "a broken catalog leaves the members as they are"
        assert server.ask("www.example.").rcode() == dns.rcode.NOERROR
        assert server.ask("version.victim.", "TXT").rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN), "the catalog is a zone"
    finally:
        BASE[:] = global_base
    primary.publish(server, members("sound", 2))
    server.wait_until(lambda: is_member(server, "sound1.test.") and not is_member(server, "old0.test."))
    assert "panicked" not in server.log.read_text()
