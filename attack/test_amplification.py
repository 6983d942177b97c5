"""Queries that cause too many or too costly responses."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest

from daemon import HOST, TINY_ZONE, Daemon

RATE = 5
LIMITS = f"rrl-rate = {RATE}\nrrl-slip = 0\ncookies = false\n"
FLOOD = 4000


def old_hash(name: str, host: str) -> int:
    """The former unkeyed RRL hash of positive answers about `name` to the /24 of `host`: FNV, then a product."""
    kind = 0xCBF29CE484222325
    for octet in dns.name.from_text(name).to_wire():
        kind = ((kind ^ octet) * 0x100000001B3) % 2**64
    network = int.from_bytes(socket.inet_aton(host)[:3], "big") << 8 | 4
    return (kind ^ network) * 0x9E3779B97F4A7C15 % 2**64


def colliding(names: Iterator[str], host: str) -> tuple[str, str]:
    """Two names with the same one of 2^14 buckets."""
    seen: dict[int, str] = {}
    for name in names:
        if other := seen.setdefault(old_hash(name, host) >> 50, name):
            if other != name:
                return other, name
    raise AssertionError("no collision")


def flood(server: Daemon, queries: list[bytes], sources: tuple[str, ...] = (HOST,), count: int = FLOOD) -> float:
    """Sends `count` datagrams round robin; returns the responses per second, with two seconds of tolerance."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in sources]
    for sock, source in zip(sockets, sources):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        sock.bind((source, 0))
        sock.connect((HOST, server.port))
    start, responses = time.monotonic(), 0
    for n in range(count):
        sock = sockets[n % len(sockets)]
        sock.send(queries[n % len(queries)])
        if n % 50 == 49:
            time.sleep(0.005)
    time.sleep(0.2)
    for sock in sockets:
        sock.setblocking(False)
        responses += sum(1 for _ in received(sock))
        sock.close()
    return responses / (2 + time.monotonic() - start)


def received(sock: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield sock.recv(65535)
        except BlockingIOError:
            return


def query(name: str, rtype: str = "A") -> bytes:
    return dns.message.make_query(name, rtype).to_wire()


def test_names_that_shared_a_bucket_are_limited(daemon):
    hosts = [f"h{n}" for n in range(2000)]
    server = daemon({"example": TINY_ZONE + "".join(f"{host} A 192.0.2.1\n" for host in hosts)}, LIMITS).start()
    pair = colliding((f"{host}.example." for host in hosts), HOST)
    assert flood(server, [query(name) for name in pair]) <= 2 * RATE


def test_networks_that_shared_a_bucket_are_limited(daemon):
    server = daemon(server=LIMITS).start()
    buckets: dict[int, str] = {}
    hosts = (f"127.{n >> 8}.{n & 255}.1" for n in range(1, 65536))
    host = next(h for h in hosts if buckets.setdefault(old_hash("www.example.", h) >> 50, h) != h)
    pair = buckets[old_hash("www.example.", host) >> 50], host
    assert flood(server, [query("www.example.")], pair) <= 2 * RATE


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param([b"\x00\x01\x00\x00\x00\x01" + bytes(6) + b"\x40"], id="malformed"),
        pytest.param([b"\x00\x01\x18\x00\x00\x00" + bytes(6)], id="unknown operation"),
        pytest.param([b"\x00\x01\x28\x00\x00\x00" + bytes(6)], id="update"),
        pytest.param([dns.message.make_query(f"r{n}.example.", "A", use_edns=1).to_wire() for n in range(FLOOD)], id="another version of EDNS"),
    ],
)
def test_errors_are_limited(daemon, queries):
    server = daemon(server=LIMITS).start()
    assert flood(server, queries) <= RATE


def test_queries_without_a_question_are_limited(daemon):
    """Each follows a query for another name, whose bucket it must not use."""
    server = daemon(server=LIMITS.replace("cookies = false", "cookies = true")).start()
    cookie = dns.edns.GenericOption(10, bytes(range(8)))
    empty = dns.message.make_query(".", "A", use_edns=0, options=[cookie])
    empty.question.clear()
    queries = [part for n in range(FLOOD // 2) for part in (query(f"r{n}.elsewhere."), empty.to_wire())]
    assert flood(server, queries) <= 2 * RATE


def test_nsec3_work_of_a_query_is_bounded(daemon):
    """With 65,535 iterations and the longest salt, a query costs little CPU time, whether the zone is served or not."""
    salt = "ab" * 255
    zone = (
        TINY_ZONE
        + f"@ NSEC3PARAM 1 0 65535 {salt}\n"
        + "".join(f"{hashed} NSEC3 1 0 65535 {salt} {following} A\n" for hashed, following in [("0" * 32, "g" * 32), ("g" * 32, "0" * 32)])
    )
    server = daemon({"example": TINY_ZONE, "costly": zone}).start()
    server.wait_until(lambda: server.ask("costly.", "SOA").rcode() in (dns.rcode.NOERROR, dns.rcode.SERVFAIL))
    time.sleep(0.3)
    before = server.cpu_s()
    asked = dns.message.make_query("a.b.c.d.costly.", "A", want_dnssec=True)
    for _ in range(5):
        got = dns.query.udp(asked, HOST, timeout=10, port=server.port)
    assert got.rcode() == dns.rcode.SERVFAIL
    assert server.cpu_s() - before < 0.5


def test_a_shortened_referral_is_not_sent_to_clients_with_larger_buffers(daemon):
    """A referral without the signatures that did not fit is not cached for clients with larger buffers."""
    signature = "13 2 60 20300101000000 20200101000000 1 example. " + "A" * 86 + "=="
    zone = TINY_ZONE + "cut NS n.cut\n"
    zone += "".join(f"cut NS ns{n}\nns{n} A 192.0.2.{n}\nns{n} RRSIG A {signature}\n" for n in range(4))
    server = daemon({"example": zone}).start()

    def signatures(payload: int) -> int:
        asked = dns.message.make_query("a.cut.example.", "A", want_dnssec=True, payload=payload)
        got = dns.query.udp(asked, HOST, timeout=2, port=server.port)
        return sum(len(rrset) for rrset in got.additional if rrset.rdtype == dns.rdatatype.RRSIG)

    for payload in (512, 520, 530):
        assert [signatures(payload) < 4 for _ in range(3)] == [True] * 3
        assert signatures(1232) == 4, payload


def test_an_rrset_that_exceeds_any_message_is_an_error_over_tcp(daemon):
    zone = TINY_ZONE + "".join(f'large TXT "{number:03}{"x" * 250}"\n' for number in range(260))
    server = daemon({"example": zone}).start()
    assert "fits in no message" in server.log_text()
    assert server.ask("large.example.", "TXT").flags & dns.flags.TC
    asked = dns.message.make_query("large.example.", "TXT", use_edns=0)
    got = dns.query.tcp(asked, HOST, timeout=2, port=server.port)
    assert (got.rcode(), bool(got.flags & dns.flags.TC)) == (dns.rcode.SERVFAIL, False)
    assert [option.code for option in got.options if option.otype == dns.edns.EDE] == [24]
