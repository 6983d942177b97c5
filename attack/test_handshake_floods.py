"""Floods of TLS and QUIC handshakes: how much processor time they take, and how long open connections wait meanwhile.

The server's key is RSA with 4,096 bits, so that a handshake costs it milliseconds, and the connections themselves next to nothing: to
accept and close them is not part of the share that `tls-handshake-percent` gives to handshakes.
"""

from __future__ import annotations

import datetime
import socket
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import dns.message
import dns.query
import dns.rcode
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from servers import reserve_port

from daemon import HOST, Daemon, framed_query, program
from floods import client_hellos, flooded
from granted_time import Stopwatch
from tls_client import client_context

KEY_BITS = 4096
# Of a processor: half of one, and what the connections cost besides. A QUIC thread has the packets of its connections, too.
MOST = {"tls": 0.55, "quic": 0.65}
ENOUGH = 0.35  # of a processor: a flood that takes less, because the machine is busy, does not show that there is a limit
WINDOW_S, WINDOWS, LIMIT_S = 2.0, 2, 30.0
RATE, SOURCES = 300, 200  # more handshakes per second than a processor can do; the number of connections is limited per client
ANSWERED_S = 5.0
# Nine of ten responses come within this time during a flood, though clients, server and attacker share two processors.
SOON_S = 0.05


def costly_certificate(folder: Path) -> str:
    """The lines of a configuration with a certificate whose key is costly to use."""
    key = rsa.generate_private_key(65537, KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    pem = serialization.Encoding.PEM
    (folder / "own.crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    (folder / "own.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return f'tls-cert = "{folder}/own.crt"\ntls-key = "{folder}/own.key"\n'


def whole_handshakes(transport: str, port: int) -> list[object]:
    """Clients that complete their handshakes and close the connection."""
    load = Path(program()).with_name("zonda-load")
    if not load.exists():
        pytest.skip(f"there is no zonda-load beside {program()}")
    who = ["--server", HOST, "--port", str(port), "--transport", transport, "--source-prefix", "127.40.0.0/16", "--sources", str(SOURCES)]
    return [load, "hostile", "--kind", "handshake", *who, "--connections", str(int(RATE * LIMIT_S * 2)), "--rate", str(RATE)]


def shares(server: Daemon, threads: str) -> list[float]:
    """The processors that these threads use in each of some windows; goes on until there are enough in which the flood had its share."""
    used: list[float] = []
    began = time.monotonic()
    while sum(share >= ENOUGH for share in used) < WINDOWS and time.monotonic() < began + LIMIT_S:
        window, before_s = time.monotonic(), server.thread_s(threads)
        time.sleep(WINDOW_S)
        used.append((server.thread_s(threads) - before_s) / (time.monotonic() - window))
    return used


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "threads"), [("tls", "handshakes"), ("quic", "quic-")])
def test_a_flood_of_handshakes_takes_half_a_processor(daemon, tmp_path, transport, threads):
    port = reserve_port()
    server = daemon(server=f'listen-{transport} = ["{HOST}:{port}"]\n{costly_certificate(tmp_path)}').start()
    with flooded(whole_handshakes(transport, port)):
        used = shares(server, threads)
    print(f"processors used by `{threads}`: {', '.join(f'{share:.3f}' for share in used)}")
    assert max(used) <= MOST[transport]
    if sum(share >= ENOUGH for share in used) < WINDOWS:
        pytest.skip(f"the machine is too busy for a flood of handshakes, which used {max(used):.2f} processors at most")


def test_a_flood_of_handshakes_delays_no_open_connection(daemon, tmp_path, stopwatch: Callable[[], Stopwatch]):
    """They are served between the steps of handshakes, whatever thread does those."""
    port = reserve_port()
    server = daemon(server=f'listen-tls = ["{HOST}:{port}"]\n{costly_certificate(tmp_path)}').start()
    waits_s: list[float] = []
    with client_context().wrap_socket(socket.create_connection((HOST, port), timeout=LIMIT_S)) as stream:
        dns.query.send_tcp(stream, dns.message.make_query("www.example.", "A"))
        dns.query.receive_tcp(stream)
        with flooded(client_hellos(port)):
            used_s, began = server.thread_s("handshakes"), time.monotonic()
            while time.monotonic() < began + ANSWERED_S:
                since = stopwatch()
                stream.sendall(framed_query("www.example."))
                response, _ = dns.query.receive_tcp(stream)
                waits_s.append(since())
                assert response.rcode() == dns.rcode.NOERROR
                time.sleep(0.005)
            used_s = server.thread_s("handshakes") - used_s
    nine_of_ten_s = quantiles(waits_s, n=10)[-1]
    print(f"{len(waits_s)} responses, median {median(waits_s) * 1e3:.1f} ms, 90 % {nine_of_ten_s * 1e3:.1f} ms; {used_s:.2f} s of handshakes")
    assert nine_of_ten_s < SOON_S
    assert used_s > 0.1 * ANSWERED_S, "it is a flood"
