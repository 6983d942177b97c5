"""Sends messages to one server and collects what comes back, over UDP (many at once), TCP (pipelined) and AXFR."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from message import AXFR, IN, SOA, Record, read_records
from names import Malformed, read_name

Address = tuple[str, int]
WINDOW = 64  # datagrams on their way at a time


@dataclass
class Flight:
    """A query on its way: which one, on which socket, how often it was sent, and when to give up waiting."""

    index: int
    socket: socket.socket
    tries: int
    deadline: float


def udp(server: Address, messages: Sequence[bytes], window: int = WINDOW, timeout_s: float = 2.0, tries: int = 3) -> list[bytes | None]:
    """The answer to each message, None for silence. At most `window` are on their way at a time."""
    flights = Flights(server, messages, timeout_s, tries)
    for _ in range(window):
        flights.launch_next()
    while flights.ready.get_map():
        for key, _ in flights.ready.select(0.05):
            flights.receive(key.data)
        flights.give_up()
    return flights.answers


class Flights:
    """Queries on their way to one server.

    Every flight has a socket of its own, closed after a time-out, so a late answer never meets the next question;
    messages too short to carry an ID can be sent for the same reason.
    """

    def __init__(self, server: Address, messages: Sequence[bytes], timeout_s: float, tries: int) -> None:
        self.server, self.messages, self.timeout_s, self.tries = server, messages, timeout_s, tries
        self.answers: list[bytes | None] = [None] * len(messages)
        self.ready = selectors.DefaultSelector()
        self.waiting = iter(range(len(messages)))

    def launch_next(self, sock: socket.socket | None = None) -> None:
        """Sends the next message, over the socket given or a new one; with none left, closes the socket."""
        index = next(self.waiting, None)
        if index is not None:
            self.launch(index, 1, sock)
        elif sock is not None:
            self.close(sock)

    def launch(self, index: int, tries: int, sock: socket.socket | None) -> None:
        if is_new := sock is None:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setblocking(False)
            sock.connect(self.server)
        flight = Flight(index, sock, tries, time.monotonic() + self.timeout_s)
        (self.ready.register if is_new else self.ready.modify)(sock, selectors.EVENT_READ, flight)
        sock.send(with_id(self.messages[index], index))

    def receive(self, flight: Flight) -> None:
        try:
            wire = flight.socket.recv(65535)
        except (BlockingIOError, ConnectionRefusedError):
            return
        message = self.messages[flight.index]
        if len(message) < 2 or wire[:2] == with_id(message, flight.index)[:2]:
            self.answers[flight.index] = wire
            self.launch_next(flight.socket)

    def give_up(self) -> None:
        """Sends once more, or leaves alone, what has waited too long."""
        now = time.monotonic()
        for flight in [key.data for key in self.ready.get_map().values() if key.data.deadline < now]:
            self.close(flight.socket)
            if flight.tries < self.tries:
                self.launch(flight.index, flight.tries + 1, None)
            else:
                self.launch_next()

    def close(self, sock: socket.socket) -> None:
        self.ready.unregister(sock)
        sock.close()


def with_id(message: bytes, index: int) -> bytes:
    """The message with the ID it is sent under; the ID is never 0, and messages without room for one stay as they are."""
    return message if len(message) < 2 else struct.pack(">H", index % 65535 + 1) + message[2:]


def tcp(server: Address, messages: Sequence[bytes], pipeline: int = 50, timeout_s: float = 5.0) -> list[bytes | None]:
    """The answer to each message over TCP, `pipeline` of them a connection (RFC 7766 6.2.1.1); answers may come in any order."""
    answers: list[bytes | None] = [None] * len(messages)
    for start in range(0, len(messages), pipeline):
        chunk = range(start, min(start + pipeline, len(messages)))
        by_id = {with_id(messages[i], i)[:2]: i for i in chunk}
        with socket.create_connection(server, timeout=timeout_s) as stream:
            try:
                stream.sendall(b"".join(framed(with_id(messages[i], i)) for i in chunk))
                while by_id:
                    wire = receive_framed(stream)
                    if wire is None:
                        break
                    if (index := by_id.pop(wire[:2], None)) is not None:
                        answers[index] = wire
            except OSError:
                continue
    return answers


def framed(message: bytes) -> bytes:
    """The message behind its length (RFC 1035 4.2.2)."""
    return struct.pack(">H", len(message)) + message


def receive_framed(stream: socket.socket) -> bytes | None:
    """One message from a stream, None at its end."""
    head = receive_exactly(stream, 2)
    return None if head is None else receive_exactly(stream, struct.unpack(">H", head)[0])


def receive_exactly(stream: socket.socket, length: int) -> bytes | None:
    """`length` octets from a stream, None when it ends before."""
    parts = bytearray()
    while len(parts) < length:
        part = stream.recv(length - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def axfr(server: Address, zone: bytes, timeout_s: float = 60.0) -> list[Record]:
    """Every record of a zone transfer (RFC 5936 2.2), the SOA first and last; raises `Malformed` or `OSError` when it fails."""
    query = struct.pack(">6H", 1, 0, 1, 0, 0, 0) + zone + struct.pack(">HH", AXFR, IN)
    records: list[Record] = []
    with socket.create_connection(server, timeout=timeout_s) as stream:
        stream.sendall(framed(query))
        while not (len(records) > 1 and records[-1].rtype == SOA):
            wire = receive_framed(stream)
            if wire is None:
                raise Malformed(f"transfer ended after {len(records)} records without the closing SOA")
            records += transferred(wire)
    return records


def transferred(wire: bytes) -> list[Record]:
    """The answer records of one transfer message."""
    _, flags, questions, count, _, _ = struct.unpack_from(">6H", wire)
    if flags & 15:
        raise Malformed(f"transfer refused with rcode {flags & 15}")
    at = 12
    names: dict[int, tuple[bytes, int]] = {}
    for _ in range(questions):
        at = read_name(wire, at, names)[1] + 4
    return read_records(wire, at, count, names)[0]
