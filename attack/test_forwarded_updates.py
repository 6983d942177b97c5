"""Primaries that send garbage, stall or stop while a secondary forwards updates to them, and servers that forward to each other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import dns.exception
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.update
import pytest
from client import framed

from daemon import HOST, Daemon
from test_hostile_primaries import SERVED, Primary, served

PATIENCE_S = 20.0  # longer than all primaries of a zone may take
CLIENTS = 60  # more than updates of one zone are forwarded at once

Respond = Callable[[bytes], Iterator[bytes]]


def answered(update: bytes, rcode: int = 0) -> bytes:
    """The response that an honest primary sends."""
    return update[:2] + bytes([update[2] | 0x80, rcode]) + update[4:12] + update[12:]


class UpdatedPrimary(Primary):
    """An honest primary, except that `attack` answers updates, with octets as they are."""

    def __init__(self) -> None:
        self.attack: Respond = honest
        self.updates = 0
        super().__init__()

    def pieces(self, octets: bytes) -> Iterator[bytes]:
        if octets[2] >> 3 & 15 != dns.opcode.UPDATE:
            return super().pieces(octets)
        self.updates += 1
        return self.attack(octets)


# ---------- what hostile primaries do ----------


def honest(update: bytes) -> Iterator[bytes]:
    yield framed(answered(update))


def noise(update: bytes) -> Iterator[bytes]:
    yield random.Random(1).randbytes(5000)


def other_id(update: bytes) -> Iterator[bytes]:
    response = answered(update)
    yield framed(bytes([response[0] ^ 1]) + response[1:])


def same_message(update: bytes) -> Iterator[bytes]:
    """No response, but the update itself."""
    yield framed(update)


def header_and_noise(update: bytes) -> Iterator[bytes]:
    yield framed(answered(update)[:12] + random.Random(1).randbytes(300))


def short(update: bytes) -> Iterator[bytes]:
    yield framed(answered(update)[:11])


def empty(update: bytes) -> Iterator[bytes]:
    yield framed(b"")


def longest(update: bytes) -> Iterator[bytes]:
    """A response that no datagram can carry."""
    yield framed((answered(update) + bytes(65_535))[:65_535])


def endless(update: bytes) -> Iterator[bytes]:
    """More and more messages."""
    while True:
        yield framed(b"\xff" * 60_000)


def trickle(update: bytes) -> Iterator[bytes]:
    for octet in framed(answered(update)):
        yield bytes([octet])
        time.sleep(0.5)


def stalls(update: bytes) -> Iterator[bytes]:
    yield framed(answered(update))[:5]
    time.sleep(60)


def stops(update: bytes) -> Iterator[bytes]:
    yield framed(answered(update))[:5]
    raise OSError("the connection is closed")


def refuses(rcode: dns.rcode.Rcode) -> Respond:
    """A response with this RCODE."""

    def refuse(update: bytes) -> Iterator[bytes]:
        yield framed(answered(update, rcode))

    return refuse


ATTACKS = [noise, other_id, same_message, header_and_noise, short, empty, longest, endless, trickle, stalls, stops]


@pytest.fixture
def primary() -> Iterator[UpdatedPrimary]:
    one = UpdatedPrimary()
    yield one
    one.close()


@pytest.fixture
def other() -> Iterator[UpdatedPrimary]:
    """The next primary of the same zone."""
    one = UpdatedPrimary()
    yield one
    one.close()


def secondary(daemon, *ports: int, server: str = "") -> Daemon:
    """A server that forwards updates of `victim` to these primaries."""
    server = daemon(server=server)
    primaries = ", ".join(f'"{HOST}:{port}"' for port in ports)
    zone = f'[[zone]]\nname = "victim"\nforward-updates = true\nmin-retry-s = 1\nprimaries = [{primaries}]\n'
    server.configure(zone)
    return server.start()


def send(server: Daemon, number: int, tcp: bool) -> dns.message.Message | None:
    """The response to an update, None without a well-formed one."""
    message = dns.update.UpdateMessage("victim.")
    message.add(f"n{number}", 60, "A", "192.0.2.1")
    with suppress(dns.exception.DNSException, EOFError, ConnectionError):
        query = dns.query.tcp if tcp else dns.query.udp
        return query(message, HOST, timeout=PATIENCE_S, port=server.port, one_rr_per_rrset=True)
    return None


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.__name__ for attack in ATTACKS])
def test_a_hostile_primary_of_forwarded_updates_harms_only_their_clients(daemon, primary: UpdatedPrimary, attack: Respond):
    server = secondary(daemon, primary.port)
    server.wait_until(lambda: served(server) == SERVED)
    memory_mb = server.rss_mb()
    primary.attack = attack
    with ThreadPoolExecutor(CLIENTS) as clients:
        sent = clients.map(lambda number: send(server, number, tcp=number % 2 == 0), range(CLIENTS))
        for _ in range(20):  # the zones are answered meanwhile
            assert server.ask("www.example.").rcode() == dns.rcode.NOERROR
            assert served(server) == SERVED
    answers = list(sent)
    assert primary.updates >= 1
    forged = [answer for answer in answers if answer and answer.rcode() == dns.rcode.NOERROR]
    # Response codes are the primary's to choose; all else is no response.
    assert not forged or attack in (header_and_noise, longest, trickle), forged
    assert server.rss_mb() < memory_mb + 60
    assert "panicked" not in server.log.read_text()
    # It recovers as soon as the primary does.
    primary.attack = honest
    server.wait_until(lambda: (answer := send(server, CLIENTS, tcp=True)) and answer.rcode() == dns.rcode.NOERROR)


def test_a_primary_that_sends_garbage_does_not_keep_updates_from_the_next_one(
    daemon, primary: UpdatedPrimary, other: UpdatedPrimary
):
    server = secondary(daemon, primary.port, other.port)
    server.wait_until(lambda: served(server) == SERVED)
    for number, attack in enumerate((noise, other_id, same_message, short, stops)):
        primary.attack = attack
        answer = send(server, number, tcp=True)
        assert answer and answer.rcode() == dns.rcode.NOERROR, attack.__name__
        assert (primary.updates, other.updates) == (number + 1, number + 1)


def test_rfc_2136_4_5_only_servfail_and_notimp_send_updates_to_the_next_primary(
    daemon, primary: UpdatedPrimary, other: UpdatedPrimary
):
    server = secondary(daemon, primary.port, other.port)
    server.wait_until(lambda: served(server) == SERVED)
    for number, rcode in enumerate((dns.rcode.SERVFAIL, dns.rcode.NOTIMP)):
        primary.attack = refuses(rcode)
        answer = send(server, number, tcp=True)
        assert answer and answer.rcode() == dns.rcode.NOERROR, rcode
        assert (primary.updates, other.updates) == (number + 1, number + 1)
    primary.attack = refuses(dns.rcode.REFUSED)
    assert is_relayed(send(server, 2, tcp=True), dns.rcode.REFUSED)
    assert (primary.updates, other.updates) == (3, 2)
    primary.attack = other.attack = refuses(dns.rcode.SERVFAIL)
    assert is_relayed(send(server, 3, tcp=True), dns.rcode.SERVFAIL)
    assert (primary.updates, other.updates) == (4, 3)


def is_relayed(answer: dns.message.Message | None, rcode: dns.rcode.Rcode) -> bool:
    """Whether a primary sent this response: those of the server itself have no records."""
    return isinstance(answer, dns.update.UpdateMessage) and answer.rcode() == rcode and bool(answer.update)


def test_a_slow_primary_costs_no_tcp_client_its_response(daemon, primary: UpdatedPrimary):
    server = secondary(daemon, primary.port, server="tcp-idle-timeout-ms = 200")
    server.wait_until(lambda: served(server) == SERVED)
    primary.attack = stalls
    answer = send(server, 1, tcp=True)
    assert answer and answer.rcode() == dns.rcode.SERVFAIL, "RFC 7766 3: the connection is not idle"


def test_servers_that_forward_to_each_other_answer(daemon, primary: UpdatedPrimary):
    """Each is a primary of the other; the third primary does not answer updates."""
    one, two = daemon(), daemon()
    for server, other in ((one, two), (two, one)):
        zone = (
            '[[zone]]\nname = "victim"\nforward-updates = true\nallow-transfer = ["127.0.0.1"]\n'
            f'primaries = ["{HOST}:{other.port}", "{HOST}:{primary.port}"]\n'
        )
        server.configure(zone)
        server.start()
    primary.attack = stalls
    for server in (one, two):
        server.wait_until(lambda server=server: served(server) == SERVED)
    began = time.monotonic()
    answer = send(one, 1, tcp=True)
    assert answer and answer.rcode() == dns.rcode.SERVFAIL
    assert time.monotonic() - began < PATIENCE_S
    assert primary.updates <= 2, "each server passes it on once"
    primary.attack = honest
    one.wait_until(lambda: (answer := send(one, 2, tcp=True)) and answer.rcode() == dns.rcode.NOERROR)
