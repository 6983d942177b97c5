"""TCP clients that send, hold open or leave unread more than they should."""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import dns.rcode
import pytest
from servers import reserve_port

from daemon import HOST, TINY_ZONE, framed_query, limit_descriptors
from tls_client import handshake

IDLE_TIMEOUT_MS = 1000
# Memory limit of the connections of one TCP thread, kernel buffers included (docs/manual/zonda.md, "Limits").
TCP_BUFFER_LIMIT_MB = 67
TRANSFERS_PER_CLIENT = 100


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """As many descriptors for the clients as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def big_rrset_zone(records: int = 230) -> str:
    """A zone with one RRset of 60 KB, or of other records of 0.26 KB."""
    return TINY_ZONE + "".join(f'big TXT "{number:03}{"x" * 250}"\n' for number in range(records))


def long_zone() -> str:
    """A zone whose transfer exceeds the socket buffers."""
    return TINY_ZONE + "".join(f"host{number} A 192.0.2.{number % 256}\n" for number in range(100_000))


@contextlib.contextmanager
def clients(count: int, port: int, receive_buffer: int = 0, source: str = HOST) -> Iterator[list[socket.socket]]:
    """Open connections, closed at the end; with a small `receive_buffer`, unread data stays with the server."""
    opened = []
    try:
        for _ in range(count):
            client = socket.socket()
            opened.append(client)
            if receive_buffer:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            client.settimeout(5)
            client.bind((source, 0))
            client.connect((HOST, port))
        yield opened
    finally:
        for client in opened:
            client.close()


def queues(port: int) -> list[int]:
    """Octets in the kernel for each connection of the server, orphans included: unacknowledged and unread."""
    sizes = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, octets = line.split()[:5]
        if int(local.split(":")[1], 16) == port and state not in ("06", "0A"):  # TIME_WAIT, LISTEN
            sizes.append(sum(int(queue, 16) for queue in octets.split(":")))
    return sizes


def queued_mb(port: int) -> float:
    return sum(queues(port)) / 1e6


def most_queued_mb(port: int, seconds: float) -> float:
    """The maximum of `queued_mb` during some seconds."""
    most, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        most = max(most, queued_mb(port))
        time.sleep(0.05)
    return most


def is_closed(client: socket.socket) -> bool:
    """Whether the server closes the connection within the client's timeout, after sending any data."""
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def ask_on(client: socket.socket, name: str = "www.example.") -> bool:
    """Whether a query on an open connection is answered."""
    try:
        client.sendall(framed_query(name))
        return len(client.recv(65536)) > 0
    except OSError:
        return False


def test_half_a_query_does_not_stall_others(daemon):
    server = daemon().start()
    with socket.create_connection((HOST, server.port)) as half:
        half.sendall(b"\x00\x20half")
        for tcp in (False, True):
            assert server.ask("www.example.", tcp=tcp).rcode() == dns.rcode.NOERROR


@pytest.mark.parametrize("segment", [88, 1460])
def test_a_client_that_reads_a_little_at_a_time_is_closed(daemon, stopwatch, segment):
    """4 KB per second, whatever the size of segments: that is no progress within the idle timeout."""
    server = daemon({"example": big_rrset_zone()}, server=f"tcp-idle-timeout-ms = {IDLE_TIMEOUT_MS}").start()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        client.settimeout(5)
        client.connect((HOST, server.port))
        client.sendall(200 * framed_query("big.example.", "TXT"))
        since = stopwatch()
        with contextlib.suppress(ConnectionResetError):
            while client.recv(80):
                assert since() < 8 * IDLE_TIMEOUT_MS / 1000, "still open"
                time.sleep(0.02)


@pytest.mark.parametrize("half_closed", [False, True])
def test_unread_answers_take_little_kernel_memory(daemon, half_closed):
    server = daemon({"example": big_rrset_zone()}, server=f"tcp-idle-timeout-ms = {IDLE_TIMEOUT_MS}").start()
    queries = framed_query("big.example.", "TXT") * 200
    with clients(200, server.port, receive_buffer=4096) as greedy:
        for client in greedy:
            client.sendall(queries)
            if half_closed:
                client.shutdown(socket.SHUT_WR)
        most = most_queued_mb(server.port, 0.3)
        assert most < TCP_BUFFER_LIMIT_MB, f"{most:.0f} MB for 200 clients"
        assert server.ask("www.example.", tcp=True).rcode() == dns.rcode.NOERROR
        # These connections are closed, which frees their kernel buffers.
        server.wait_until(lambda: queued_mb(server.port) < 0.1, timeout_s=10)


def test_half_closed_connections_count_until_their_answers_are_read(daemon):
    """If they were closed at once, whoever reads nothing could keep any number of answers in the kernel, for 10 s each."""
    limits = "tcp-connections = 1000\ntcp-connections-per-client = 100\ntcp-idle-timeout-ms = 3000"
    server = daemon({"example": big_rrset_zone(40)}, server=limits).start()
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            [client] = stack.enter_context(clients(1, server.port, receive_buffer=2304))
            with contextlib.suppress(OSError):
                client.sendall(framed_query("big.example.", "TXT"))
                client.shutdown(socket.SHUT_WR)
            time.sleep(0.002)
        held = sum(octets > 0 for octets in queues(server.port))
        assert held <= 110, f"{held} connections of one client have unread answers"
        assert held > 50
    server.wait_until(lambda: server.ask("www.example.", tcp=True).rcode() == dns.rcode.NOERROR, timeout_s=15)


def test_connections_that_break_the_protocol_leave_no_answers_behind(daemon, stopwatch):
    """They stay open while the kernel has their unread answers: no limit counts those of closed connections."""
    server = daemon({"example": big_rrset_zone()}).start()
    with clients(300, server.port, receive_buffer=2304) as greedy:
        for client in greedy:
            client.sendall(framed_query("big.example.", "TXT"))
        time.sleep(0.5)
        for client in greedy:
            with contextlib.suppress(OSError):
                client.sendall(b"\r\n\r\n\0\r\nQUIT\n" + bytes(4))  # a PROXY header
        server.wait_until(lambda: not any(queues(server.port)), 3, stopwatch())


@pytest.mark.slow
@pytest.mark.usefixtures("many_descriptors")
def test_what_follows_close_notify_is_counted(daemon):
    """It is never read, but the connection stays until its answer is."""
    port = reserve_port()
    more = f'listen-tls = ["{HOST}:{port}"]\ntls-self-signed = true\ntls-handshake-percent = 100\ntcp-idle-timeout-ms = 60000'
    server = daemon({"example": big_rrset_zone(80)}, server=f"{more}\ntcp-connections-per-client = 10000").start()
    with clients(700, port, receive_buffer=2304) as greedy:
        for client in greedy:
            tls, outgoing = handshake(client)
            tls.write(framed_query("big.example.", "TXT"))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.unwrap()
            with contextlib.suppress(OSError):
                client.sendall(outgoing.read())
        time.sleep(0.5)
        for client in greedy:
            client.setblocking(False)
            with contextlib.suppress(OSError):
                while client.send(bytes(65536)):
                    pass
        most = most_queued_mb(port, 0.5)
        assert most < TCP_BUFFER_LIMIT_MB / 2, f"{most:.0f} MB for 700 clients"
    assert server.ask("www.example.").rcode() == dns.rcode.NOERROR


@pytest.mark.slow
@pytest.mark.usefixtures("many_descriptors")
def test_one_unread_answer_for_each_of_many_clients_is_counted(daemon):
    """Each answer fits in the kernel buffers, so the server itself holds nothing."""
    server = daemon({"example": big_rrset_zone()}).start()
    query = framed_query("big.example.", "TXT")
    with contextlib.ExitStack() as stack:
        for number in range(2, 6):
            for client in stack.enter_context(clients(900, server.port, 4096, source=f"127.0.0.{number}")):
                with contextlib.suppress(OSError):
                    client.sendall(query)
        most = most_queued_mb(server.port, 0.5)
        assert most < TCP_BUFFER_LIMIT_MB * 1.1, f"{most:.0f} MB for 3,600 clients"
        assert server.ask("www.example.", tcp=True).rcode() == dns.rcode.NOERROR


def test_a_partial_message_makes_room_before_an_idle_client(daemon):
    server = daemon(server="tcp-connections = 20\ntcp-connections-per-client = 1000\ntcp-idle-timeout-ms = 60000").start()
    with clients(1, server.port) as [polite], clients(19, server.port) as stuck:
        assert ask_on(polite)
        for client in stuck:
            client.sendall(b"\x00\x20half")
        time.sleep(1.5)
        with clients(10, server.port) as others:
            assert all(ask_on(client) for client in others)
            assert ask_on(polite), "the idle client was closed, the stuck ones were kept"


def test_empty_messages_do_not_keep_a_connection_open(daemon):
    server = daemon(server=f"tcp-idle-timeout-ms = {IDLE_TIMEOUT_MS}").start()
    with clients(1, server.port) as [client]:
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < 3:
                client.sendall(bytes(2000))
                time.sleep(0.05)


def test_transfers_do_not_flood_the_log(daemon):
    server = daemon().start()
    with clients(1, server.port) as [client]:
        for _ in range(10):
            client.sendall(framed_query("example.", "AXFR") * 100)
        client.shutdown(socket.SHUT_WR)
        assert is_closed(client)
    lines = server.log.read_text().count("zone transferred")
    assert 0 < lines <= 200, f"{lines} lines for 1,000 transfers"


def test_evictions_at_full_descriptors_are_logged(daemon):
    server = daemon()
    server.start(preexec_fn=limit_descriptors(120))
    with clients(300, server.port) as opened:
        for client in opened:
            with contextlib.suppress(OSError):
                client.sendall(framed_query("www.example."))
        server.wait_until(lambda: "evicted" in server.log_text(), timeout_s=5)
        assert ask_on(opened[-1])
    assert server.log.read_text().count("evicted") <= 2


def test_unread_transfers_cost_only_their_connections(daemon):
    server = daemon({"example": long_zone()}, server=f"tcp-idle-timeout-ms = {2 * IDLE_TIMEOUT_MS}").start()
    with clients(TRANSFERS_PER_CLIENT + 50, server.port, receive_buffer=4096) as greedy:
        began = time.monotonic()
        for client in greedy:
            client.sendall(framed_query("example.", "AXFR"))
        server.wait_until(lambda: len(queues(server.port)) <= TRANSFERS_PER_CLIENT, timeout_s=1.5)
        assert server.ask("www.example.", tcp=True).rcode() == dns.rcode.NOERROR
        assert queued_mb(server.port) < TRANSFERS_PER_CLIENT * 0.3
        server.wait_until(lambda: queued_mb(server.port) < 0.1, timeout_s=10)
        assert time.monotonic() - began < 6
    assert "broken off" in server.log_text()


def nsec3_zone(iterations: int) -> str:
    """A zone whose negative answers cost as many digests as in a signed one, with the longest salt."""
    salt, hashed = "ab" * 255, "0" * 32
    chain = f"{hashed} NSEC3 1 0 {iterations} {salt} {hashed} A NS SOA NSEC3PARAM\n"
    return TINY_ZONE + f"@ NSEC3PARAM 1 0 {iterations} {salt}\n" + chain


def test_costly_denials_do_not_starve_other_connections(daemon):
    server = daemon({"example": nsec3_zone(150)}).start()
    queries = framed_query("a.b.c.d.e.f.g.h.example.", want_dnssec=True) * 2000
    with clients(20, server.port) as costly, clients(1, server.port) as [polite]:
        assert ask_on(polite)
        for client in costly:
            client.setblocking(False)
            client.send(queries)
        worst, end = 0.0, time.monotonic() + 1
        while time.monotonic() < end:
            began = time.monotonic()
            assert ask_on(polite)
            worst = max(worst, time.monotonic() - began)
    assert worst < 0.25, f"{worst:.3f} s"


@contextlib.contextmanager
def traced_calls(pid: int, log: Path, peer: tuple[str, int]) -> Iterator[list[str]]:
    """The names of the system calls that read from or write to the connection of `peer` while the block runs; complete after it."""
    calls: list[str] = []
    command = ["strace", "-f", "-yy", "-e", "trace=read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg", "-o", log, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr
        first = tracer.stderr.readline()
        if "attached" not in first:
            pytest.skip(f"strace may not trace: {first.strip()}")
        try:
            yield calls
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=10)
    host, port = peer
    lines = [line for line in log.read_text().splitlines() if f"->{host}:{port}]" in line and "resumed" not in line]
    calls += [line.split("(")[0].split()[-1] for line in lines]


def test_queries_that_arrive_together_take_one_read_and_one_write(daemon, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    server, together = daemon().start(), 20
    with clients(1, server.port) as [client], client.makefile("rb") as responses:

        def ask(count: int) -> None:
            client.sendall(framed_query("www.example.") * count)
            for _ in range(count):
                assert len(responses.read(int.from_bytes(responses.read(2)))) > 12

        ask(1)  # it is accepted
        with traced_calls(server.pid, tmp_path / "calls", client.getsockname()) as calls:
            ask(together)
    kinds = ["read" if "re" in call else "write" for call in calls]
    assert kinds == ["read", "write"], f"{together} queries took {calls}"
