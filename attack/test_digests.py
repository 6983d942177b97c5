"""Digests of zones (ZONEMD, RFC 8976) that are wrong, unknown, several, or that an incremental transfer makes wrong."""

from __future__ import annotations

from collections.abc import Iterator

import dns.message
import dns.rdatatype
import dns.rrset
import dns.zone
import pytest

from daemon import HOST, Daemon
from test_hostile_primaries import LATER, OFFERED, SERVED, ZONE, Messages, Primary, failures, ns, refresh, served, soa, text, transfer

SHA384, SHA512 = 1, 2
WRONG, LONGER = "00" * 48, "00" * 64


def digest(serial: int, *more: dns.rrset.RRset, algorithm: int = SHA384) -> str:
    """The digest of the zone with these records as well."""
    zone = dns.zone.Zone(ZONE, relativize=False)
    for rrset in (soa(serial), ns(), *more):
        zone.find_rdataset(rrset.name, rrset.rdtype, create=True).update(rrset.to_rdataset())
    return zone.compute_digest(dns.zone.DigestHashAlgorithm(algorithm)).digest.hex()


def zonemd(*texts: str) -> dns.rrset.RRset:
    return dns.rrset.from_text(ZONE, 60, "IN", "ZONEMD", *texts)


class DigestPrimary(Primary):
    """Serves one version with its digests, and another change for IXFR than that version needs, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.digests, self.more = [f"{SERVED} 1 1 {digest(SERVED)}"], [ns()]
        self.change: list[dns.rrset.RRset] = []
        self.respond = self.send

    def send(self, query: dns.message.Message) -> Messages:
        if query.question[0].rdtype == dns.rdatatype.IXFR and self.change:
            yield transfer(query, *self.change)
        else:
            yield transfer(query, soa(self.serial), *self.more, zonemd(*self.digests), soa(self.serial))


@pytest.fixture
def primary() -> Iterator[DigestPrimary]:
    one = DigestPrimary()
    yield one
    one.close()


def secondary(daemon, primary: Primary, mode: str) -> Daemon:
    server = daemon()
    zone = f'[[zone]]\nname = "victim"\nmin-retry-s = 1\nprimaries = ["{HOST}:{primary.port}"]\nzonemd = "{mode}"\n'
    server.configure(zone)
    server.start()
    server.wait_until(lambda: served(server) == SERVED)
    return server


@pytest.mark.parametrize(
    ("digests", "is_served"),
    [
        ([f"1 1 {WRONG}"], False),
        ([f"1 1 {WRONG}", f"1 2 {LONGER}"], False),
        ([f"1 1 {WRONG}", f"1 2 {digest(OFFERED, algorithm=SHA512)}"], True),
        ([f"1 240 {WRONG}", f"200 1 {WRONG}"], True),
        ([f"1 1 {WRONG}", f"1 1 {digest(OFFERED)}"], True),
    ],
    ids=["wrong", "two wrong", "one right", "unknown", "two of a kind"],
)
def test_a_version_is_served_unless_no_known_digest_is_right(daemon, primary: DigestPrimary, digests: list[str], is_served: bool):
    server = secondary(daemon, primary, "full-transfers")
    primary.serial, primary.digests = OFFERED, [f"{OFFERED} {words}" for words in digests]
    refresh(server)
    if is_served:
        server.wait_until(lambda: served(server) == OFFERED)
        return
    server.wait_until(lambda: failures(server.log))
    assert "its digest does not match its ZONEMD record" in failures(server.log)[0]
    assert served(server) == SERVED


@pytest.mark.parametrize("is_sound", [True, False])
def test_after_changes_with_a_wrong_digest_the_whole_zone_is_transferred(daemon, primary: DigestPrimary, is_sound: bool):
    server = secondary(daemon, primary, "always")
    old, other = zonemd(f"{SERVED} 1 1 {digest(SERVED)}"), text(1, 10)
    primary.serial = OFFERED
    primary.digests = [f"{OFFERED} 1 1 {digest(OFFERED) if is_sound else WRONG}"]
    # The changes add a record that the version of the digest does not have.
    primary.change = [soa(OFFERED), soa(SERVED), old, soa(OFFERED), zonemd(*primary.digests), other, soa(OFFERED)]
    refresh(server)
    server.wait_until(lambda: "after the changes, its digest does not match" in "".join(failures(server.log)))
    if is_sound:
        server.wait_until(lambda: served(server) == OFFERED, timeout_s=5)
        assert not server.ask("n1.victim.", "TXT").answer
        return
    server.wait_until(lambda: len(failures(server.log)) > 1)
    assert served(server) == SERVED
    # It recovers as soon as the primary does.
    primary.serial, primary.change, primary.digests = LATER, [], [f"{LATER} 1 1 {digest(LATER)}"]
    refresh(server)
    server.wait_until(lambda: served(server) == LATER)
