"""A QUIC client that does what others must not: the state machine of aioquic over a socket of the test."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

import pytest

quic_configuration = pytest.importorskip("aioquic.quic.configuration", reason="aioquic is not installed")
from aioquic.quic import events  # noqa: E402 - the line above skips without it
from aioquic.quic.connection import QuicConnection  # noqa: E402

from daemon import HOST, framed_query  # noqa: E402

PROTOCOL_ERROR, EXCESSIVE_LOAD = 2, 4  # RFC 9250 4.3


def framed(name: str = "www.example.", rtype: str = "A", message_id: int = 0) -> bytes:
    """A query with its length; RFC 9250 4.2.1: the message ID is 0."""
    return framed_query(name, rtype, id=message_id)


class QuicClient:
    """One connection. `sent` and `events` are all datagrams and events so far."""

    def __init__(self, port: int, source: str = HOST, **configuration: object) -> None:
        self.server = (HOST, port)
        self.socket = bound(source)
        options = {"is_client": True, "alpn_protocols": ["doq"], "verify_mode": ssl.CERT_NONE, "server_name": "localhost"}
        self.quic = QuicConnection(configuration=quic_configuration.QuicConfiguration(**options | configuration))
        self.quic.connect(self.server, now=time.time())
        self.sent: list[bytes] = []
        self.events: list[events.QuicEvent] = []

    def send(self) -> None:
        """Sends what is due."""
        for octets, _ in self.quic.datagrams_to_send(now=time.time()):
            self.sent.append(octets)
            self.socket.sendto(octets, self.server)

    def run(self, condition: Callable[[], object] = lambda: False, timeout_s: float = 3.0) -> bool:
        """Sends and receives until the condition holds; returns whether it does."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            self.send()
            try:
                self.quic.receive_datagram(self.socket.recv(65536), self.server, now=time.time())
            except TimeoutError:
                timer = self.quic.get_timer()
                if timer is not None and timer <= time.time():
                    self.quic.handle_timer(now=time.time())
            while event := self.quic.next_event():
                self.events.append(event)
            if condition():
                self.send()
                return True
        return False

    def connect(self, timeout_s: float = 3.0) -> bool:
        """Whether the handshake succeeds."""
        return self.run(lambda: any(isinstance(event, events.HandshakeCompleted) for event in self.events), timeout_s)

    def stream(self, octets: bytes, ends: bool = True) -> int:
        """Opens a stream with these octets; returns its number."""
        number = self.quic.get_next_available_stream_id()
        self.quic.send_stream_data(number, octets, ends)
        return number

    def ask(self, octets: bytes | None = None, timeout_s: float = 3.0) -> bytes:
        """What a stream with these octets gets, up to its end or that of the connection."""
        number = self.stream(octets if octets is not None else framed())
        self.run(lambda: self.is_over(number) or self.close_code() is not None, timeout_s)
        return b"".join(event.data for event in self.of_stream(number))

    def of_stream(self, number: int) -> list[events.StreamDataReceived]:
        return [event for event in self.events if isinstance(event, events.StreamDataReceived) and event.stream_id == number]

    def is_over(self, number: int) -> bool:
        return any(event.end_stream for event in self.of_stream(number))

    def close_code(self) -> int | None:
        """The error code with which the connection was closed, if it was."""
        codes = [event.error_code for event in self.events if isinstance(event, events.ConnectionTerminated)]
        return codes[0] if codes else None

    def close(self) -> None:
        self.quic.close()
        self.send()
        self.socket.close()


def bound(source: str = HOST) -> socket.socket:
    """A UDP socket with an address of its own."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind((source, 0))
    opened.settimeout(0.05)
    return opened
