"""Makes the modules of interop importable; fixtures for small zones and servers."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import client
import zone_data
from servers import reserve_port
from zone_text import ZONES, expanded

# What a server sends for a message: nothing, a message, or over TCP several and then the end.
Responder = Callable[[bytes], bytes | list[bytes] | None]


@pytest.fixture
def zone_of(tmp_path: Path) -> Callable[[str, str], zone_data.ZoneData]:
    """Parses a zone file with an apex."""

    def read(apex: str, text: str) -> zone_data.ZoneData:
        file = tmp_path / "zone"
        file.write_text(text)
        return zone_data.read(file, apex)

    return read


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], zone_data.ZoneData]:
    """Parses a zone file of this folder with an apex."""
    folder = tmp_path_factory.mktemp("zones")
    known: dict[str, zone_data.ZoneData] = {}

    def read(apex: str, source: str) -> zone_data.ZoneData:
        if apex not in known:
            file = folder / apex
            file.write_text(expanded(ZONES / source))
            known[apex] = zone_data.read(file, apex)
        return known[apex]

    return read


@contextmanager
def serving(respond: Responder, respond_over_udp: Responder | None = None) -> Iterator[client.Address]:
    """A server on 127.0.0.1 that sends what `respond` returns for a message; over UDP `respond_over_udp`, if given."""
    with socket.create_server(("127.0.0.1", reserve_port())) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        address = listener.getsockname()
        datagrams.bind(address)
        threads = [
            threading.Thread(target=answer_datagrams, args=(datagrams, respond_over_udp or respond)),
            threading.Thread(target=answer_streams, args=(listener, respond)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield address
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            datagrams.sendto(b"", address)
            for thread in threads:
                thread.join()


def answer_datagrams(sock: socket.socket, respond: Responder) -> None:
    while (received := sock.recvfrom(65535))[0]:
        if isinstance(reply := respond(received[0]), bytes):
            sock.sendto(reply, received[1])


def answer_streams(listener: socket.socket, respond: Responder) -> None:
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            return
        with stream:
            answer_stream(stream, respond)


def answer_stream(stream: socket.socket, respond: Responder) -> None:
    with stream.makefile("rb") as received:
        while (message := client.receive_framed(received)) is not None:
            reply = respond(message)
            for part in reply if isinstance(reply, list) else [reply] if reply is not None else []:
                stream.sendall(client.framed(part))
            if isinstance(reply, list):
                return
