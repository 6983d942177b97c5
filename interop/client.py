"""Sends queries to one server over UDP (many in parallel), TCP (pipelined) and AXFR."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from dns_numbers import AXFR, IN, SOA
from message import Record, read_records
from names import Malformed, read_name

Address = tuple[str, int]
WINDOW = 64  # outstanding UDP queries


@dataclass
class PendingQuery:
    """A query without a response: its index, socket, number of attempts and deadline."""

    index: int
    socket: socket.socket
    tries: int
    deadline: float


def udp(server: Address, messages: Sequence[bytes], window: int = WINDOW, timeout_s: float = 2.0, tries: int = 3) -> list[bytes | None]:
    """The response to each message, None if there is none; at most `window` are outstanding at a time."""
    pending = PendingQueries(server, messages, timeout_s, tries)
    for _ in range(window):
        pending.send_next()
    while pending.ready.get_map():
        for key, _ in pending.ready.select(0.05):
            pending.receive(key.data)
        pending.expire()
    return pending.responses


class PendingQueries:
    """Outstanding queries to one server.

    Each has a socket of its own, closed after a timeout, so that a late response is not taken for the next one
    and messages without room for an ID can be sent.
    """

    def __init__(self, server: Address, messages: Sequence[bytes], timeout_s: float, tries: int) -> None:
        self.server, self.messages, self.timeout_s, self.tries = server, messages, timeout_s, tries
        self.responses: list[bytes | None] = [None] * len(messages)
        self.ready = selectors.DefaultSelector()
        self.unsent = iter(range(len(messages)))

    def send_next(self, sock: socket.socket | None = None) -> None:
        """Sends the next message on `sock` or a new socket; closes `sock` if there is none left."""
        index = next(self.unsent, None)
        if index is not None:
            self.send(index, 1, sock)
        elif sock is not None:
            self.close(sock)

    def send(self, index: int, tries: int, sock: socket.socket | None) -> None:
        if is_new := sock is None:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setblocking(False)
            sock.connect(self.server)
        query = PendingQuery(index, sock, tries, time.monotonic() + self.timeout_s)
        (self.ready.register if is_new else self.ready.modify)(sock, selectors.EVENT_READ, query)
        sock.send(with_id(self.messages[index], index))

    def receive(self, query: PendingQuery) -> None:
        try:
            wire = query.socket.recv(65535)
        except (BlockingIOError, ConnectionRefusedError):
            return
        message = self.messages[query.index]
        if len(message) < 2 or wire[:2] == with_id(message, query.index)[:2]:
            self.responses[query.index] = wire
            self.send_next(query.socket)

    def expire(self) -> None:
        """Resends queries past their deadline, or abandons them after `tries` attempts."""
        now = time.monotonic()
        for query in [key.data for key in self.ready.get_map().values() if key.data.deadline < now]:
            self.close(query.socket)
            if query.tries < self.tries:
                self.send(query.index, query.tries + 1, None)
            else:
                self.send_next()

    def close(self, sock: socket.socket) -> None:
        self.ready.unregister(sock)
        sock.close()


def with_id(message: bytes, index: int) -> bytes:
    """Sets the ID of a message, which is never 0; a message too short for an ID is unchanged."""
    return message if len(message) < 2 else struct.pack(">H", index % 65535 + 1) + message[2:]


def tcp(server: Address, messages: Sequence[bytes], pipeline: int = 50, timeout_s: float = 5.0) -> list[bytes | None]:
    """The response to each message over TCP, `pipeline` per connection (RFC 7766 6.2.1.1), in any order."""
    responses: list[bytes | None] = [None] * len(messages)
    for start in range(0, len(messages), pipeline):
        chunk = range(start, min(start + pipeline, len(messages)))
        by_id = {with_id(messages[i], i)[:2]: i for i in chunk}
        with socket.create_connection(server, timeout=timeout_s) as sock, sock.makefile("rb") as stream:
            try:
                sock.sendall(b"".join(framed(with_id(messages[i], i)) for i in chunk))
                while by_id and (wire := receive_framed(stream)) is not None:
                    if (index := by_id.pop(wire[:2], None)) is not None:
                        responses[index] = wire
            except OSError:
                continue
    return responses


def framed(message: bytes) -> bytes:
    """Prefixes a message with its length (RFC 1035 4.2.2)."""
    return struct.pack(">H", len(message)) + message


def receive_framed(stream: BinaryIO) -> bytes | None:
    """The next message of a stream, None at its end."""
    head = stream.read(2)
    length = int.from_bytes(head)
    message = stream.read(length)
    return message if len(head) == 2 and len(message) == length else None


def axfr(server: Address, zone: bytes, timeout_s: float = 60.0) -> list[Record]:
    """The records of a zone transfer (RFC 5936 2.2), with the SOA first and last; raises `Malformed` or `OSError`."""
    query = struct.pack(">6H", 1, 0, 1, 0, 0, 0) + zone + struct.pack(">HH", AXFR, IN)
    records: list[Record] = []
    with socket.create_connection(server, timeout=timeout_s) as sock, sock.makefile("rb") as stream:
        sock.sendall(framed(query))
        while not (len(records) > 1 and records[-1].rtype == SOA):
            wire = receive_framed(stream)
            if wire is None:
                raise Malformed(f"transfer ended after {len(records)} records without the closing SOA")
            records += transferred(wire)
    return records


def transferred(wire: bytes) -> list[Record]:
    """The answer section of one transfer message."""
    _, flags, queries, count, _, _ = struct.unpack_from(">6H", wire)
    if flags & 15:
        raise Malformed(f"transfer refused with rcode {flags & 15}")
    at = 12
    names: dict[int, tuple[bytes, int]] = {}
    for _ in range(queries):
        at = read_name(wire, at, names)[1] + 4
    return read_records(wire, at, count, names)[0]
