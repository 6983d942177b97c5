"""Who gets a transfer over TLS: certificates of clients, session tickets and their keys, certificates that a reload brings."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import ssl
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import pytest
from servers import reserve_port
from zonda_lab.servers.config import Certificate
from zonda_lab.servers.credentials import certificate

from daemon import HOST, Daemon
from tls_client import client_context, handshake, read_to_end

CLIENT = "secondary.example"


def ticket_key() -> str:
    return base64.b64encode(os.urandom(32)).decode() + "\n"


class TransferServer:
    """A server that transfers its zone to clients with the certificate of `CLIENT` only."""

    def __init__(self, daemon, folder: Path, authority: Certificate, keys: Path) -> None:
        self.port, self.own, self.keys = reserve_port(), certificate(folder, "localhost", authority, f"own-{keys.name}"), keys
        more = f'listen-tls = ["{HOST}:{self.port}"]\ntls-cert = "{self.own.certificate}"\ntls-key = "{self.own.key}"\n'
        self.server: Daemon = daemon(server=f'{more}tls-ca = "{authority.certificate}"\ntls-ticket-keys = "{keys}"')
        allowed = f'[{{ address = "127.0.0.0/8", tls = "{CLIENT}" }}]'
        self.server.config.write_text(self.server.config.read_text().replace('["127.0.0.0/8"]', allowed))
        self.server.start()

    def transfer(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> tuple[dns.rcode.Rcode, bool, ssl.SSLSession]:
        """The response code of a transfer, whether the session was resumed, and the session."""
        connection = socket.create_connection((HOST, self.port), timeout=5)
        with context.wrap_socket(connection, session=session) as stream:
            dns.query.send_tcp(stream, dns.message.make_query("example.", "AXFR"))
            response, _ = dns.query.receive_tcp(stream)
            return response.rcode(), bool(stream.session_reused), stream.session


def client(own: Certificate | None) -> ssl.SSLContext:
    context = client_context()
    if own:
        context.load_cert_chain(own.certificate, own.key)
    return context


@pytest.fixture
def authority(tmp_path: Path) -> Certificate:
    return certificate(tmp_path, "authority.example")


@pytest.fixture
def primary(daemon, tmp_path: Path, authority: Certificate) -> TransferServer:
    keys = tmp_path / "tickets"
    keys.write_text(ticket_key())
    return TransferServer(daemon, tmp_path, authority, keys)


def test_only_the_named_client_gets_a_transfer(primary, authority, tmp_path):
    good = certificate(tmp_path, CLIENT, authority)
    assert primary.transfer(client(good))[0] == dns.rcode.NOERROR
    others = [None, certificate(tmp_path, "other.example", authority)]
    assert [primary.transfer(client(one))[0] for one in others] == [dns.rcode.REFUSED] * 2
    foreign = certificate(tmp_path, CLIENT, certificate(tmp_path, "elsewhere.example"), "foreign")
    expired = certificate(tmp_path, CLIENT, authority, "expired", days=-1)
    for one in (foreign, expired):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            primary.transfer(client(one))
    good.certificate.write_bytes(good.certificate.read_bytes() + foreign.certificate.read_bytes() * 80)
    assert primary.transfer(client(good))[0] == dns.rcode.NOERROR, "a long chain of certificates that nobody asked for"


def test_tickets_end_with_their_key_and_are_good_where_it_is(primary, authority, tmp_path, daemon):
    context = client(certificate(tmp_path, CLIENT, authority))
    old, (_, _, session) = primary.keys.read_text(), primary.transfer(context)
    assert primary.transfer(context, session)[:2] == (dns.rcode.NOERROR, True)
    primary.keys.write_text(ticket_key() + old)
    assert primary.server.reload().returncode == 0
    assert primary.transfer(context, session)[:2] == (dns.rcode.NOERROR, True)
    primary.keys.write_text(ticket_key())
    assert primary.server.reload().returncode == 0
    assert primary.transfer(context, session)[:2] == (dns.rcode.NOERROR, False)
    for keys, is_resumed in ((old, True), (ticket_key(), False)):
        path = tmp_path / f"tickets-{is_resumed}"
        path.write_text(keys)
        other = TransferServer(daemon, tmp_path, authority, path)
        assert other.transfer(context, session)[:2] == (dns.rcode.NOERROR, is_resumed)


def test_a_ticket_is_worth_no_more_than_its_certificate(primary, authority, tmp_path):
    """The authority is replaced: a session that it let in is refused, too."""
    context = client(certificate(tmp_path, CLIENT, authority))
    session = primary.transfer(context)[2]
    certificate(tmp_path, "authority.example")
    assert primary.server.reload().returncode == 0
    with contextlib.suppress(ssl.SSLError, ConnectionError):  # after a full handshake
        assert primary.transfer(context, session)[0] == dns.rcode.REFUSED


def test_odd_files_of_keys_leave_the_old_ones_in_use(primary, authority, tmp_path):
    context = client(certificate(tmp_path, CLIENT, authority))
    session, keys, old = primary.transfer(context)[2], primary.keys, primary.keys.read_text()
    for number, text in enumerate(("", old[:20], "\0" * 44, "A" * 1_000_000, ticket_key() * 17), start=1):
        keys.write_text(text)
        assert primary.server.reload().returncode == 1
        primary.server.wait_until(lambda count=number: primary.server.log_text().count("openssl rand -base64 32") == count)
    makers = [lambda: None, keys.mkdir, lambda: os.mkfifo(keys), lambda: keys.symlink_to("/dev/zero"), lambda: keys.symlink_to(keys)]
    for make in makers:
        keys.rmdir() if keys.is_dir() else keys.unlink(missing_ok=True)
        make()
        refused = primary.server.reload(timeout_s=5)
        assert refused.returncode == 1
        assert "what was read before stays in use" in refused.stdout + refused.stderr
        assert primary.transfer(context, session)[:2] == (dns.rcode.NOERROR, True)


def test_certificates_that_no_client_accepts_are_not_served(primary, authority, tmp_path):
    """A bundle of authorities as `tls-cert`: the handshake would be longer than clients read."""
    context, pem = client(certificate(tmp_path, CLIENT, authority)), primary.own.certificate
    pem.write_bytes(pem.read_bytes() + authority.certificate.read_bytes() * 300)
    refused = primary.server.reload()
    assert refused.returncode == 1
    assert "too long for a handshake" in refused.stdout + refused.stderr
    assert primary.transfer(context)[0] == dns.rcode.NOERROR


@pytest.mark.parametrize(
    "record",
    [
        b"\x17\x03\x03\0\0" * 100,
        b"\x17\x03\x03\x40\x01" + bytes(16385),
        b"\x17\x03\x03\xff\xff" + bytes(65535),
        b"\x17\x03\x03\0\x20" + bytes(32),
        b"\x15\x03\x03\0\x02\x01\0",
        b"\x14\x03\x03\0\x01\x01" * 2000,
        b"\x16\x03\x03\0\x04\x01\0\0\0",
    ],
    ids=["empty", "16,385 octets", "65,535 octets", "forged", "plain alert", "ChangeCipherSpec", "plain handshake"],
)
def test_a_record_that_is_not_of_the_session_ends_it(primary, record):
    with socket.create_connection((HOST, primary.port), timeout=5) as stream:
        _, outgoing = handshake(stream)
        stream.sendall(outgoing.read() + record)
        read_to_end(stream)
    assert primary.server.ask("www.example.").rcode() == dns.rcode.NOERROR
