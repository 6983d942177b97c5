"""What hostile TLS clients do to transfers over TLS: garbage, half a handshake, old versions, other protocols, bad certificate files."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import time
from pathlib import Path
from statistics import median

import dns.message
import dns.query
import dns.rcode
import pytest
from servers import reserve_port
from zonda_lab.servers.credentials import certificate

from daemon import HOST, Daemon
from floods import client_hellos, flooded
from tls_client import client_context, client_hello, read_to_end

CONNECTIONS = 50
FLOOD_S = 6.0
LIMIT_S = 60.0  # for what may take long on a slow machine


class TlsDaemon:
    """A server for transfers over TLS."""

    def __init__(self, daemon, folder: Path) -> None:
        files, self.port = certificate(folder), reserve_port()
        self.cert, self.key = files.certificate, files.key
        more = f'listen-tls = ["{HOST}:{self.port}"]\ntls-cert = "{self.cert}"\ntls-key = "{self.key}"'
        self.server: Daemon = daemon(server=more).start()

    def connect(self, source: str = HOST) -> socket.socket:
        return socket.create_connection((HOST, self.port), timeout=LIMIT_S, source_address=(source, 0))

    def transfer(self) -> int:
        """How many messages a transfer over TLS has; an honest client is served whatever others do."""
        query = dns.message.make_query("example.", "AXFR")
        with client_context().wrap_socket(self.connect()) as stream:
            dns.query.send_tcp(stream, query)
            response, _ = dns.query.receive_tcp(stream)
            assert response.rcode() == dns.rcode.NOERROR
            assert response.answer[0].rdtype == dns.rdatatype.SOA
            return len(response.answer)


@pytest.fixture
def tls(daemon, tmp_path: Path) -> TlsDaemon:
    return TlsDaemon(daemon, tmp_path)


@pytest.mark.parametrize(
    "octets",
    [b"\0\x1d" + bytes(29), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\xff" * 70_000, b"\xff" * 4096],
    ids=["plain DNS", "HTTP", "a long record", "noise"],
)
def test_garbage_instead_of_tls_closes_the_connection(tls, octets):
    for _ in range(CONNECTIONS):
        with tls.connect() as stream:
            try:
                stream.sendall(octets)
                stream.shutdown(socket.SHUT_WR)
            except OSError:
                continue  # it was closed while this was sent
            assert len(read_to_end(stream)) < 100, "at most an alert"
    assert tls.transfer() > 0


def test_half_handshakes_are_given_up_and_delay_nobody(tls):
    octets = client_hello()
    streams = [tls.connect() for _ in range(CONNECTIONS)]
    for number, stream in enumerate(streams):
        stream.sendall(octets[: 1 + number * len(octets) // CONNECTIONS])
    assert tls.transfer() > 0
    for stream in streams:
        read_to_end(stream)  # the server closes each, or this times out
        stream.close()
    assert tls.transfer() > 0


def test_old_versions_and_other_protocols_get_no_transfer(tls):
    old = client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    rcode = dns.rcode.REFUSED
    with contextlib.suppress(OSError, EOFError), old.wrap_socket(tls.connect()) as stream:
        dns.query.send_tcp(stream, dns.message.make_query("example.", "AXFR"))
        rcode = dns.query.receive_tcp(stream)[0].rcode()
    assert rcode == dns.rcode.REFUSED, "RFC 9103 7.1: TLS 1.3 or later"
    other = client_context()
    other.set_alpn_protocols(["h2", "http/1.1"])
    with pytest.raises((ssl.SSLError, ConnectionError)):
        other.wrap_socket(tls.connect()).close()
    assert tls.transfer() > 0


@pytest.mark.parametrize("broken", ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_broken_certificate_files_leave_the_old_ones_in_use(tls, broken):
    good = tls.cert.read_text()
    for path in (tls.cert, tls.key):
        contents = path.read_text()
        path.write_text(broken)
        result = tls.server.reload()
        assert path.name in result.stdout + result.stderr + tls.server.log_text(), "the file is named"
        assert tls.transfer() > 0
        path.write_text(contents)
    tls.cert.unlink()
    tls.server.reload()
    assert tls.transfer() > 0
    tls.cert.write_text(good)
    assert tls.server.reload().returncode == 0
    assert tls.transfer() > 0


def test_a_pipe_as_a_key_file_does_not_block_later_reloads(tls):
    contents = tls.key.read_bytes()
    tls.key.unlink()
    os.mkfifo(tls.key)
    result = tls.server.reload(timeout_s=10)
    assert result.returncode != 0
    assert "it is not a regular file" in result.stdout + result.stderr
    assert tls.transfer() > 0
    tls.key.unlink()
    tls.key.write_bytes(contents)
    assert tls.server.reload(timeout_s=10).returncode == 0


def test_handshakes_that_are_cut_do_not_use_up_memory(tls):
    before_mb = tls.server.rss_mb()
    for _ in range(100):
        with tls.connect() as stream:
            client_context().wrap_socket(stream, do_handshake_on_connect=False).close()
    for _ in range(50):
        with contextlib.suppress(OSError):
            client_context().wrap_socket(tls.connect()).close()
    assert tls.transfer() > 0
    assert tls.server.rss_mb() - before_mb < 30


def test_a_flood_of_key_updates_ends_the_connection(tls):
    """RFC 8446 4.6.3: each demands an answer. TLS 1.3 has no renegotiation; this is what is left of it."""
    openssl = ["openssl", "s_client", "-quiet", "-connect", f"{HOST}:{tls.port}", "-alpn", "dot", "-tls1_3"]
    openssl.remove("-quiet")  # it turns the commands off
    before_mb, before_s = tls.server.rss_mb(), tls.server.cpu_s()
    with subprocess.Popen(openssl, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        assert client.stdin and client.stdout
        with contextlib.suppress(BrokenPipeError):
            for _ in range(2000):
                client.stdin.write(b"K\n")  # demands a key update of the server, too
                client.stdin.flush()
                time.sleep(0.001)
                if client.poll() is not None:
                    break
        try:
            client.wait(15)
        except subprocess.TimeoutExpired:
            client.kill()
            raise AssertionError("the connection is still open") from None
        assert b"KEYUPDATE" in client.stdout.read(), "the client sent key updates"
    assert tls.server.cpu_s() - before_s < 2
    assert tls.server.rss_mb() - before_mb < 10
    assert tls.transfer() > 0


def test_renegotiation_is_not_possible(tls):
    """CVE-2011-1473: a client that makes the server pay for handshake after handshake."""
    openssl = ["openssl", "s_client", "-connect", f"{HOST}:{tls.port}", "-tls1_2", "-legacy_renegotiation"]
    result = subprocess.run(openssl, input=b"R\nR\nR\n", capture_output=True, timeout=30, check=False)
    assert b"Cipher is (NONE)" in result.stdout or result.returncode != 0, result.stdout
    assert tls.transfer() > 0


def wait_s(server: Daemon) -> float:
    """How long a query over UDP and one over TCP take together."""
    began = time.monotonic()
    for tcp in (False, True):
        assert server.ask("www.example.", timeout_s=LIMIT_S, tcp=tcp).rcode() == dns.rcode.NOERROR
    return time.monotonic() - began


def test_a_flood_of_handshakes_delays_no_query(tls, daemon):
    """Clients that begin handshakes as fast as they can, without ending them: each costs the server a signature.

    Queries to another server, asked in turn, wait as long for this machine, on which the flood leaves little.
    """
    beside, before_mb = daemon().start(), tls.server.rss_mb()
    waits_s: list[tuple[float, float]] = []
    with flooded(client_hellos(tls.port)):
        began, transfers = time.monotonic(), 0
        while time.monotonic() < began + (FLOOD_S if transfers and len(waits_s) > 4 else LIMIT_S):
            waits_s.append((wait_s(tls.server), wait_s(beside)))
            with contextlib.suppress(OSError):  # a handshake that waits for too long is given up
                transfers += tls.transfer() > 0
    assert transfers > 0, "honest clients get through"
    flooded_s, beside_s = map(median, zip(*waits_s))
    assert flooded_s < 10 * beside_s + 0.05, "UDP and TCP have threads of their own"
    assert tls.server.rss_mb() - before_mb < 100
    assert "panicked" not in tls.server.log.read_text()
