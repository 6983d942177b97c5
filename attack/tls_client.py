"""TLS clients that do what others must not: the state machine of the `ssl` module without its sockets."""

from __future__ import annotations

import socket
import ssl

import pytest


def client_context() -> ssl.SSLContext:
    """Settings of a client for transfers (RFC 9103 7.1) that verifies nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["dot"])
    return context


def client_hello() -> bytes:
    """What a client sends first."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def handshake(stream: socket.socket) -> tuple[ssl.SSLObject, ssl.MemoryBIO]:
    """A session after its handshake, and what it has to send, which begins with the end of the handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = client_context().wrap_bio(incoming, outgoing)
    while True:
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            stream.sendall(outgoing.read())
            incoming.write(stream.recv(65536))
        else:
            return session, outgoing


def read_to_end(stream: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    octets = b""
    try:
        while chunk := stream.recv(65536):
            octets += chunk
    except ConnectionError:
        pass
    return octets
