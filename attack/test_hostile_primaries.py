"""Primaries that send garbage, stop, stall, or send what was not asked for: the zone stays as it was, and the log says why."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from client import framed
from servers import HOST, reserve_port

from daemon import Daemon

ZONE, OTHER = dns.name.from_text("victim."), dns.name.from_text("other.")
SERVED, OFFERED, LATER = 10, 11, 12
STALLED_S = 10  # after which a silent primary is given up
Messages = Iterator[bytes]


class Primary:
    """A primary that is honest until a test gives it another `respond`."""

    def __init__(self) -> None:
        self.port, self.serial, self.is_up = reserve_port(), SERVED, True
        self.respond: Callable[[dns.message.Message], Messages] = self.honest
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind((HOST, self.port))
        self.listener = socket.create_server((HOST, self.port))
        for serve in (self.serve_datagrams, self.serve_streams):
            threading.Thread(target=serve, daemon=True).start()

    def honest(self, query: dns.message.Message) -> Messages:
        """The zone in one message."""
        yield transfer(query, soa(self.serial), ns(), soa(self.serial))

    def serve_datagrams(self) -> None:
        with suppress(OSError):
            while True:
                octets, client = self.datagrams.recvfrom(4096)
                if not self.is_up:
                    continue
                self.datagrams.sendto(transfer(dns.message.from_wire(octets), soa(self.serial)), client)

    def serve_streams(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, struct.error):
            while True:
                (length,) = struct.unpack(">H", client.recv(2, socket.MSG_WAITALL))
                octets = client.recv(length, socket.MSG_WAITALL)
                if not self.is_up:
                    return
                for piece in self.pieces(octets):
                    client.sendall(piece)

    def pieces(self, octets: bytes) -> Iterator[bytes]:
        """What is sent in response to a message."""
        return map(framed, self.respond(dns.message.from_wire(octets)))

    def close(self) -> None:
        self.datagrams.close()
        self.listener.close()


def soa(serial: int, owner: dns.name.Name = ZONE) -> dns.rrset.RRset:
    return dns.rrset.from_text(owner, 60, "IN", "SOA", f"ns.example. host.example. {serial} 3600 1 604800 60")


def ns() -> dns.rrset.RRset:
    return dns.rrset.from_text(ZONE, 60, "IN", "NS", "ns.example.")


def text(number: int, octets: int) -> dns.rrset.RRset:
    """A TXT record of its own owner."""
    strings = " ".join('"' + "x" * 250 + '"' for _ in range(max(1, octets // 251)))
    return dns.rrset.from_text(dns.name.from_text(f"n{number}", ZONE), 60, "IN", "TXT", strings)


def transfer(query: dns.message.Message, *rrsets: dns.rrset.RRset) -> bytes:
    """A response with these records, in this order."""
    response = dns.message.make_response(query)
    response.flags |= dns.flags.AA
    response.use_edns(False)
    wire = bytearray(response.to_wire())
    wire[6:8] = struct.pack(">H", sum(len(rrset) for rrset in rrsets))
    for rrset in rrsets:
        for rdata in rrset:
            octets = rdata.to_wire()
            wire += rrset.name.to_wire() + struct.pack(">HHIH", rrset.rdtype, rrset.rdclass, rrset.ttl, len(octets)) + octets
    return bytes(wire)


# --- What hostile primaries do


def noise(query: dns.message.Message) -> Messages:
    """Random octets."""
    yield random.Random(1).randbytes(5000)


def noise_with_header(query: dns.message.Message) -> Messages:
    """A header that fits, then random octets."""
    octets = transfer(query, soa(OFFERED), ns())
    yield octets[:30] + random.Random(1).randbytes(500)


def stops(query: dns.message.Message) -> Messages:
    """The connection ends before the last record."""
    yield transfer(query, soa(OFFERED), ns())
    raise OSError("the connection is closed")


def stalls(query: dns.message.Message) -> Messages:
    """Nothing more comes before the last record."""
    yield transfer(query, soa(OFFERED), ns())
    time.sleep(60)


def other_zone(query: dns.message.Message) -> Messages:
    yield transfer(query, soa(OFFERED, OTHER), ns(), soa(OFFERED, OTHER))


def older_serial(query: dns.message.Message) -> Messages:
    yield transfer(query, soa(SERVED - 1), ns(), soa(SERVED - 1))


def other_last_serial(query: dns.message.Message) -> Messages:
    yield transfer(query, soa(OFFERED), ns(), soa(OFFERED + 1))


def one_record_per_message(query: dns.message.Message) -> Messages:
    """An endless stream of messages of 64 KiB, each with one short record and padding."""
    yield transfer(query, soa(OFFERED), ns())
    number = 0
    while True:
        number += 1
        message = transfer(query, text(number, 1))
        yield message + bytes(65_000 - len(message))


def empty_messages(query: dns.message.Message) -> Messages:
    """An endless stream of messages without records."""
    yield transfer(query, soa(OFFERED), ns())
    while True:
        yield transfer(query)


# What the operator must see, and after how many seconds.
ATTACKS = [
    (noise, "no zones can be transferred from this primary: the primary sends messages that answer no query", 5),
    (noise_with_header, "the primary sent a malformed message: a label has an unknown type", 5),
    (stops, "the connection to the primary was closed: end of file", 5),
    (stalls, f"the primary has sent nothing for {STALLED_S} s", STALLED_S + 5),
    (other_zone, "the primary sent the SOA record of other.; expected that of victim.", 5),
    (older_serial, f"its serial {SERVED - 1} is earlier than {SERVED}, which is served; `zonda zone retransfer` accepts it", 5),
    (other_last_serial, f"the transfer starts with serial {OFFERED} and ends with another SOA record, of serial {OFFERED + 1}", 5),
    (one_record_per_message, "octets of records", 15),
    (empty_messages, "octets of records", 15),
]


@pytest.fixture
def primary() -> Iterator[Primary]:
    one = Primary()
    yield one
    one.close()


def refresh(server: Daemon) -> None:
    assert server.run("zone", "refresh", "victim.").returncode == 0


def served(server: Daemon) -> int | None:
    return server.serial("victim.")


def failures(log: Path) -> list[str]:
    """The lines about failed transfers."""
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if "zone transfer failed" in line or "no zones can be transferred" in line]


@pytest.mark.parametrize(("attack", "words", "within_s"), ATTACKS, ids=[attack[0].__name__ for attack in ATTACKS])
def test_a_hostile_primary_changes_nothing_and_is_reported(daemon, primary: Primary, attack, words: str, within_s: float) -> None:
    server = daemon()
    zone = f'[[zone]]\nname = "victim"\nmin-retry-s = 1\nprimaries = ["{HOST}:{primary.port}"]\n'
    server.configure(zone)
    server.start()
    server.wait_until(lambda: served(server) == SERVED)
    memory_mb = server.rss_mb()
    primary.respond, primary.serial = attack, OFFERED
    began = time.monotonic()
    refresh(server)
    server.wait_until(lambda: failures(server.log), within_s)
    assert words in failures(server.log)[0], failures(server.log)
    assert time.monotonic() - began < within_s
    assert served(server) == SERVED
    assert server.rss_mb() < memory_mb + 100
    assert "panicked" not in server.log_text()
    # It recovers as soon as the primary does.
    primary.respond, primary.serial = primary.honest, LATER
    refresh(server)
    server.wait_until(lambda: served(server) == LATER)
