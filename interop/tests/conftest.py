"""Makes the modules of the tool importable, and gives tests small zones and servers of their own."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ask  # noqa: E402
import zonedata  # noqa: E402
from zonetext import ZONES, expanded  # noqa: E402

Responder = Callable[[bytes], bytes | None]


@pytest.fixture
def zone_of(tmp_path: Path) -> Callable[[str, str], zonedata.ZoneData]:
    """Reads zone text under an apex."""

    def read(apex: str, text: str) -> zonedata.ZoneData:
        file = tmp_path / "zone"
        file.write_text(text)
        return zonedata.read(file, apex)

    return read


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], zonedata.ZoneData]:
    """Reads a zone of this repository under an apex."""
    folder = tmp_path_factory.mktemp("zones")
    known: dict[str, zonedata.ZoneData] = {}

    def read(apex: str, source: str) -> zonedata.ZoneData:
        if apex not in known:
            file = folder / apex
            file.write_text(expanded(ZONES / source))
            known[apex] = zonedata.read(file, apex)
        return known[apex]

    return read


@contextmanager
def serving(respond: Responder) -> Iterator[ask.Address]:
    """A server on 127.0.0.1 that answers over UDP and TCP with what `respond` gives for a message, or not at all."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        address = listener.getsockname()
        datagrams.bind(address)
        threads = [threading.Thread(target=answer_datagrams, args=(datagrams, respond)), threading.Thread(target=answer_streams, args=(listener, respond))]
        for thread in threads:
            thread.start()
        try:
            yield address
        finally:
            for sock in (listener, datagrams):
                sock.shutdown(socket.SHUT_RDWR) if sock is listener else socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", address)
            for thread in threads:
                thread.join()


def answer_datagrams(sock: socket.socket, respond: Responder) -> None:
    while (received := sock.recvfrom(65535))[0]:
        if (reply := respond(received[0])) is not None:
            sock.sendto(reply, received[1])


def answer_streams(listener: socket.socket, respond: Responder) -> None:
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            return
        with stream:
            while (message := ask.receive_framed(stream)) is not None:
                if (reply := respond(message)) is not None:
                    stream.sendall(ask.framed(reply))
