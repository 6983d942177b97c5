"""QUIC clients that send nonsense, half of what they should, or what others have sent. Needs aioquic (`requirements.txt`)."""

from __future__ import annotations

import os
import random
import signal
import time

import dns.rcode
import pytest
from servers import reserve_port

from daemon import HOST, Daemon, repeated
from quic_client import EXCESSIVE_LOAD, PROTOCOL_ERROR, QuicClient, bound, framed

IDLE_TIMEOUT_MS = 1000
LIMIT_S = 30.0  # for what may take long on a slow machine
INITIAL_LEN = 1200  # RFC 9000 14.1: the least for a datagram that opens a connection
HANDSHAKES = 50  # above which addresses are verified first


@pytest.fixture
def quic(daemon) -> tuple[Daemon, int]:
    """A server with QUIC, and its port."""
    port = reserve_port()
    more = f'listen-quic = ["{HOST}:{port}"]\ntls-self-signed = true\nquic-idle-timeout-ms = {IDLE_TIMEOUT_MS}'
    return daemon(server=more).start(), port


@pytest.fixture(autouse=True)
def unharmed(quic):
    """After each attack UDP and QUIC answer, memory comes back, and no thread has panicked."""
    server, port = quic
    server.ask("www.example.")
    before_mb = server.rss_mb()
    yield
    assert server.ask("www.example.", timeout_s=2).rcode() == dns.rcode.NOERROR
    client = QuicClient(port, "127.0.0.200")
    assert client.connect()
    assert len(client.ask()) > 2
    client.close()
    assert server.rss_mb() - before_mb < 20
    assert "bug" not in server.log_text()


def test_datagrams_that_are_no_quic_get_no_more_than_they_bring(quic):
    _, port = quic
    rng, client = random.Random(1), bound()
    client.setblocking(False)
    sent = received = 0
    for number in range(10_000):
        octets = rng.randbytes(rng.choice([1, 20, 21, 100, INITIAL_LEN - 1, INITIAL_LEN]))
        if number % 2:  # the long header of a version that nobody has, or of version 1 with a connection ID of any length
            version = rng.choice([b"\x1a\x2a\x3a\x4a", b"\0\0\0\1", b"\0\0\0\0"])
            octets = bytes([0xC0]) + version + bytes([rng.choice([0, 8, 20, 21, 255])]) + octets
        client.sendto(octets, (HOST, port))
        sent += len(octets)
        try:
            while True:
                received += len(client.recv(65536))
        except BlockingIOError:
            pass
    assert received < sent / 3
    client.close()


def test_damaged_cut_and_repeated_initials_do_not_prevent_the_handshake(quic):
    _, port = quic
    rng, client, other = random.Random(2), QuicClient(port), bound("127.0.0.2")
    client.send()
    first = client.sent[0]
    for length in range(0, len(first), 40):
        client.socket.sendto(first[:length], (HOST, port))
    for _ in range(1000):
        damaged = bytearray(first)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        client.socket.sendto(damaged, (HOST, port))
        other.sendto(first, (HOST, port))
    assert client.connect()
    assert len(client.ask()) > 2
    other.close()
    client.close()


@pytest.mark.parametrize(
    "octets",
    [framed() * 2, framed(message_id=1), framed()[:-1], b"\0", b"\0\0", framed()[:4] + b"\x80" + framed()[5:], b"\0\x20" + os.urandom(32)],
    ids=["two queries", "a message ID", "a cut query", "half a length", "no message", "a response", "noise"],
)
def test_protocol_errors_close_the_connection(quic, octets):
    """RFC 9250 4.2.1, 4.3.3."""
    _, port = quic
    client = QuicClient(port)
    assert client.connect()
    assert client.ask(octets) == b""
    assert client.close_code() == PROTOCOL_ERROR
    client.close()


def test_half_queries_are_given_up(quic):
    server, port = quic
    client = QuicClient(port)
    for _ in range(5000):  # far more than may be open; made before the handshake, as a slow client without a query is idle
        client.stream(framed()[:10], ends=False)

    def others_are_answered() -> None:
        assert server.ask("www.example.", timeout_s=LIMIT_S).rcode() == dns.rcode.NOERROR
        time.sleep(0.02)

    began = time.monotonic()
    with repeated(others_are_answered):
        assert client.connect(LIMIT_S)
        assert client.run(lambda: client.close_code() is not None, timeout_s=LIMIT_S)
    assert client.close_code() == EXCESSIVE_LOAD
    assert time.monotonic() - began > IDLE_TIMEOUT_MS / 2000, "a client may send a query in pieces"
    client.close()


def test_responses_that_are_stopped_and_streams_that_are_reset_cost_nothing(quic):
    server, port = quic
    client = QuicClient(port)
    assert client.connect()
    before_s = server.cpu_s()
    for number in range(1000):
        stream = client.stream(framed("example.", "AXFR"))
        client.quic.stop_stream(stream, 3)
        if number % 10 == 9:
            client.run(timeout_s=0.001)
    assert len(client.ask()) > 2, "the connection is still usable"
    assert server.cpu_s() - before_s < 1
    client.close()


def test_a_client_that_retires_connection_ids_without_end_is_closed(quic):
    """For each, the library makes another one, and keeps all of them for a client that acknowledges nothing: gigabytes in minutes."""
    _, port = quic
    client = QuicClient(port)
    assert client.connect()
    assert len(client.ask()) > 2
    loss, client.quic._local_active_connection_id_limit = client.quic._loss, 1 << 40
    for first in range(1, 1200, 4):  # the first ID is in use
        loss._cc.congestion_window, loss._cc.bytes_in_flight, loss._pacer.packet_time = 1 << 40, 0, None
        client.quic._retire_connection_ids.extend(range(first, first + 4))
        client.send()
        for space in client.quic._spaces.values():
            space.sent_packets.clear()  # no packet is repeated
        time.sleep(0.001)
    client.run(lambda: client.close_code() is not None, timeout_s=0.5)
    assert client.close_code() == EXCESSIVE_LOAD
    client.close()


def test_a_client_with_another_address_gets_nothing(quic):
    """Connections do not migrate, so nobody can direct responses to others."""
    _, port = quic
    client = QuicClient(port)
    assert client.connect()
    client.socket.close()
    client.socket = bound("127.0.0.3")
    assert client.ask(timeout_s=0.5) == b""
    for octets in client.sent * 20:
        client.socket.sendto(octets, (HOST, port))
    assert not client.run(lambda: client.events and client.close_code() is not None, timeout_s=0.2)
    client.close()


def test_retry_tokens_are_those_of_an_address(quic):
    _, port = quic
    waiting = [QuicClient(port, f"127.0.1.{number + 1}") for number in range(HANDSHAKES + 20)]
    for one in waiting:
        one.send()
    time.sleep(0.05)
    client = QuicClient(port, "127.0.0.4")
    client.send()
    client.socket.settimeout(1)
    retry = client.socket.recv(65536)
    assert retry[0] & 0x30 == 0x30, "a Retry packet"
    client.quic.receive_datagram(retry, client.server, now=time.time())
    before = len(client.sent)
    client.send()
    with_token, thief = client.sent[before], bound("127.0.0.5")
    for _ in range(20):
        thief.sendto(with_token, (HOST, port))
    with pytest.raises(TimeoutError):
        thief.recv(65536)
    client.socket.settimeout(0.05)
    assert client.connect()
    forged = QuicClient(port, "127.0.0.6", token=os.urandom(90))
    assert forged.connect(), "RFC 9000 8.1.3: as without a token"
    for one in [*waiting, client, forged]:
        one.close()
    thief.close()


def test_initials_with_other_tokens_do_not_flood_the_log(quic):
    server, port = quic
    client = QuicClient(port, "127.0.0.7")
    client.send()
    before = len(server.log_text().splitlines())
    for _ in range(1000):
        client.quic._peer_token = os.urandom(16)
        client.quic._probe_pending = True
        client.quic._loss._cc.bytes_in_flight = 0
        client.send()
    assert len(client.sent) > 1000
    client.close()
    server.ask("www.example.")
    assert len(server.log_text().splitlines()) - before < 20


def test_handshakes_that_are_never_completed_are_forgotten(quic):
    server, port = quic
    for number in range(1000):
        client = QuicClient(port, f"127.{1 + number % 100}.{number // 100}.1")
        client.send()
        client.socket.close()
    assert server.ask("www.example.", timeout_s=2).rcode() == dns.rcode.NOERROR
    assert server.reload(timeout_s=10).returncode == 0
    time.sleep(2 * IDLE_TIMEOUT_MS / 1000)
    used = server.cpu_s()
    time.sleep(0.5)
    assert server.cpu_s() - used < 0.1


def test_a_stop_answers_all_queries_that_have_arrived(quic, daemon):
    """It must not read one batch of datagrams only, and close the connections of the others as idle."""
    port = reserve_port()
    more = f'listen-quic = ["{HOST}:{port}"]\ntls-self-signed = true\nquic-idle-timeout-ms = 60000'
    server = daemon(server=more).start()
    clients = [QuicClient(port, f"127.3.0.{number + 1}") for number in range(150)]
    for client in clients:
        assert client.connect()
        client.run(timeout_s=0.01)
    os.kill(server.pid, signal.SIGSTOP)
    asked = []
    for client in clients:
        asked.append((client, client.stream(framed())))
        client.send()
    os.kill(server.pid, signal.SIGTERM)
    os.kill(server.pid, signal.SIGCONT)

    def is_answered(client: QuicClient, stream: int) -> bool:
        client.run(lambda: client.is_over(stream) or client.close_code() is not None)
        return client.is_over(stream)

    assert all([is_answered(*one) for one in asked])
    for client in clients:
        client.close()


def test_a_stop_does_not_wait_for_half_handshakes(quic, daemon):
    """If it waited as long as for responses, whoever sends one datagram each second would make every stop last 5 s."""
    port = reserve_port()
    server = daemon(server=f'listen-quic = ["{HOST}:{port}"]\ntls-self-signed = true').start()
    for number in range(HANDSHAKES // 2):
        client = QuicClient(port, f"127.2.0.{number + 1}")
        client.send()
        client.socket.close()
    time.sleep(0.1)
    began = time.monotonic()
    assert server.stop(timeout_s=10) == 0
    assert time.monotonic() - began < 3
