"""Clients behind a proxy that sends PROXY headers (version 2), and others who send such headers to be taken for them."""

from __future__ import annotations

import contextlib
import socket
import ssl

import dns.message
import dns.query
import dns.rcode
import dns.update
import pytest
from servers import reserve_port

from daemon import HOST, Daemon, framed_query
from tls_client import client_context

PROXY = "127.0.0.2"  # the only one in `proxy-from`; the daemon itself is asked from 127.0.0.1
SECONDARY, OTHER = "192.0.2.7", "198.51.100.7"  # both are behind the proxy, in different networks
RATE, PER_CLIENT = 5, 3
FLOOD = 200
LIMIT_S = 10.0

PRIVATE = """
[[zone]]
name = "private"
file = "{path}"
allow-transfer = ["{secondary}"]
allow-update = ["{secondary}"]
"""


def header(client: str | None) -> bytes:
    """A header for a client with an IPv4 address, or for the proxy's own message or connection (LOCAL)."""
    signature = b"\r\n\r\n\0\r\nQUIT\n"
    if client is None:
        return signature + b"\x20\0\0\0"
    return signature + b"\x21\x11\0\x0c" + socket.inet_aton(client) + socket.inet_aton(HOST) + b"\x30\x39\0\x35"


class ProxiedServer:
    """A server behind the proxy, with limits per client and a zone that only `SECONDARY` may transfer and update."""

    def __init__(self, daemon) -> None:
        self.tls_port, self.limit_s = reserve_port(), LIMIT_S
        more = f'listen-tls = ["{HOST}:{self.tls_port}"]\ntls-self-signed = true\nproxy-from = ["{PROXY}"]\n'
        more += f"rrl-rate = {RATE}\nrrl-slip = 0\ncookies = false\ntcp-connections-per-client = {PER_CLIENT}\n"
        self.server: Daemon = daemon(server=more)
        path = self.server.zones / "example.zone"
        self.server.configure(PRIVATE.format(path=path, secondary=SECONDARY))
        self.server.start()

    def refused(self, transport: str) -> int:
        """How many messages or connections were refused for their headers, or for having none."""
        name = f'zonda_proxy_refused_total{{transport="{transport}"}} '
        lines = self.server.run("metrics").stdout.splitlines()
        return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))

    def connect(self, transport: str, source: str, before: bytes) -> socket.socket:
        """A connection that begins with these octets."""
        port = self.tls_port if transport == "tls" else self.server.port
        stream = socket.create_connection((HOST, port), timeout=self.limit_s, source_address=(source, 0))
        if before:
            stream.sendall(before)
        return client_context().wrap_socket(stream) if transport == "tls" else stream

    def udp(self, source: str) -> socket.socket:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind((source, 0))
        datagrams.connect((HOST, self.server.port))
        datagrams.settimeout(self.limit_s)
        return datagrams

    def request(self, transport: str, source: str, before: bytes) -> dns.rcode.Rcode:
        """The response code of a request that only `SECONDARY` may send: an update over UDP, else a transfer."""
        if transport == "udp":
            update = dns.update.UpdateMessage("private.")
            update.add("added", 60, "A", "192.0.2.1")
            with self.udp(source) as datagrams:
                datagrams.send(before + update.to_wire())
                return dns.message.from_wire(datagrams.recv(65535)).rcode()
        with self.connect(transport, source, before) as stream:
            dns.query.send_tcp(stream, dns.message.make_query("private.", "AXFR"))
            return dns.query.receive_tcp(stream)[0].rcode()


@pytest.fixture
def proxied(daemon) -> ProxiedServer:
    return ProxiedServer(daemon)


transports = pytest.mark.parametrize("transport", ["udp", "tcp", "tls"])
stream_transports = pytest.mark.parametrize("transport", ["tcp", "tls"])


@transports
def test_access_lists_apply_to_the_client_in_the_header(proxied, transport):
    expected = {SECONDARY: dns.rcode.NOERROR, OTHER: dns.rcode.REFUSED, None: dns.rcode.REFUSED}
    for client, rcode in expected.items():
        assert proxied.request(transport, PROXY, header(client)) == rcode, f"{client} behind the proxy"
    assert proxied.refused(transport) == 0


def test_rate_limits_apply_to_the_client_in_the_header(proxied):
    """Two clients, one of which floods: the other one is answered, although all datagrams have the address of the proxy."""
    query = dns.message.make_query("www.example.", "A").to_wire()

    def answers(client: str, count: int) -> int:
        with proxied.udp(PROXY) as datagrams:
            for _ in range(count):
                datagrams.send(header(client) + query)
            received = 0
            datagrams.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                while received < count:
                    datagrams.recv(65535)
                    received += 1
            return received

    assert RATE <= answers(OTHER, FLOOD) <= 4 * RATE, "the flood is limited"
    assert answers(SECONDARY, RATE) == RATE, "the other client is not"
    # All in different networks, as they arrive through a proxy of a provider.
    assert sum(answers(f"203.0.{number}.1", 1) for number in range(3 * RATE)) == 3 * RATE


@stream_transports
def test_shares_of_connections_are_those_of_the_client_in_the_header(proxied, transport):
    def is_served(stream: socket.socket) -> bool:
        stream.sendall(framed_query("www.example."))
        return len(stream.recv(2)) == 2

    with contextlib.ExitStack() as stack:
        for client in (OTHER, SECONDARY):
            for _ in range(PER_CLIENT):
                stream = stack.enter_context(proxied.connect(transport, PROXY, header(client)))
                assert is_served(stream), f"{client} may have {PER_CLIENT} connections"
            with contextlib.suppress(OSError, ssl.SSLError):
                stream = stack.enter_context(proxied.connect(transport, PROXY, header(client)))
                assert not is_served(stream), f"{client} has more connections than its share"


@transports
def test_headers_of_others_are_refused_and_a_proxy_must_send_one(proxied, transport):
    proxied.limit_s = 2.0  # for datagrams that get no response
    refused = 0
    for source, before in [(HOST, header(SECONDARY)), (HOST, header(None)), (PROXY, b"")]:
        with pytest.raises((OSError, EOFError)):
            proxied.request(transport, source, before)
        refused += 1
        assert proxied.refused(transport) == refused
    proxied.limit_s = LIMIT_S
    assert proxied.request(transport, HOST, b"") == dns.rcode.REFUSED, "others are served without a header"
    assert proxied.refused(transport) == refused
