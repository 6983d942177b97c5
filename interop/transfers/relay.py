"""A relay between a secondary and its primary: records which transfers pass through it, and can cut the connection.

The record proves what both servers did (AXFR or IXFR, incremental or not, signed or not), whatever they log.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from client import transferred
from dns_numbers import AXFR, SOA
from names import Malformed, name_text, read_name
from servers import HOST, reserve_port

IXFR, TSIG = 251, 250
HEADER = 12


@dataclass
class Exchange:
    """A transfer that passed: what was asked, over which transport, and the form of the response."""

    zone: str
    qtype: int
    over_udp: bool
    signed: bool
    form: str = "unanswered"  # then full, incremental, serial (the SOA alone) or refused
    records: int = 0
    soas: list[bytes] = field(default_factory=list)  # the RDATA of the first two records, if they are SOA records

    def receive(self, message: bytes) -> None:
        """Takes one message of the response."""
        try:
            records = transferred(message)
        except Malformed:
            self.form = "refused"
            return
        self.soas += [record.rdata for record in records[: max(0, 2 - self.records)] if record.rtype == SOA]
        self.records += len(records)
        # RFC 1995 4: an incremental response has a second SOA record, that of an older version, after the first.
        if len(self.soas) == 2 and self.soas[0] != self.soas[1]:
            self.form = "incremental"
        elif self.records == 1:
            self.form = "serial"
        elif self.records > 1:
            self.form = "full"


class Relay:
    """Forwards UDP and TCP to a port of 127.0.0.1, from a port of its own or from a given address."""

    def __init__(self, upstream: int, address: tuple[str, int] | None = None) -> None:
        self.upstream = HOST, upstream
        self.address = address or (HOST, reserve_port())
        self.exchanges: list[Exchange] = []
        self.lock = threading.Lock()
        self.sockets: set[socket.socket] = set()
        self.is_open = False

    @property
    def port(self) -> int:
        return self.address[1]

    def open(self) -> None:
        """Starts to forward."""
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stream.bind(self.address)
        stream.listen(64)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(self.address)
        self.is_open = True
        self.keep(stream, datagrams)
        for target, sock in ((self.accept, stream), (self.forward_datagrams, datagrams)):
            threading.Thread(target=target, args=(sock,), daemon=True).start()

    def close(self) -> None:
        """Cuts all connections; new ones are refused."""
        self.is_open = False
        with self.lock:
            sockets, self.sockets = self.sockets, set()
        for sock in sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def transfers(self, zone: str | None = None) -> list[Exchange]:
        """The transfers so far, of one zone or of all."""
        with self.lock:
            return [exchange for exchange in self.exchanges if zone in (None, exchange.zone)]

    def forget(self) -> None:
        """Empties the record."""
        with self.lock:
            self.exchanges.clear()

    # --- Forwarding

    def keep(self, *sockets: socket.socket) -> None:
        """Remembers sockets that `close` closes."""
        with self.lock:
            self.sockets.update(sockets)
        if not self.is_open:
            self.close()

    def accept(self, listener: socket.socket) -> None:
        while self.is_open:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward_stream, args=(client,), daemon=True).start()

    def forward_stream(self, client: socket.socket) -> None:
        """Forwards one connection in both directions."""
        # ValueError: `close` has closed the socket before it was registered.
        with client, suppress(OSError, ValueError), socket.create_connection(self.upstream) as server:
            self.keep(client, server)
            asked: dict[bytes, Exchange] = {}
            queries, responses = FramedMessages(), FramedMessages()
            with selectors.DefaultSelector() as ready:
                ready.register(client, selectors.EVENT_READ, (server, queries))
                ready.register(server, selectors.EVENT_READ, (client, responses))
                while True:
                    for key, _ in ready.select():
                        to, messages = key.data
                        assert isinstance(key.fileobj, socket.socket)
                        if not (octets := key.fileobj.recv(65536)):
                            return
                        for message in messages.receive(octets):
                            (self.note_query if messages is queries else self.note_response)(message, asked, False)
                        to.sendall(octets)

    def forward_datagrams(self, sock: socket.socket) -> None:
        while self.is_open:
            try:
                message, client = sock.recvfrom(65535)
            except OSError:
                return
            threading.Thread(target=self.forward_datagram, args=(sock, message, client), daemon=True).start()

    def forward_datagram(self, sock: socket.socket, message: bytes, client: tuple[str, int]) -> None:
        asked: dict[bytes, Exchange] = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, suppress(OSError):
            server.settimeout(5)
            self.note_query(message, asked, True)
            server.sendto(message, self.upstream)
            response = server.recv(65535)
            self.note_response(response, asked, True)
            sock.sendto(response, client)

    # --- The record

    def note_query(self, message: bytes, asked: dict[bytes, Exchange], over_udp: bool) -> None:
        """Records a query if it asks for a transfer."""
        with suppress(Malformed, struct.error, IndexError):
            name, at = read_name(message, HEADER, {})
            qtype, _ = struct.unpack_from(">HH", message, at)
            if qtype in (AXFR, IXFR):
                exchange = Exchange(name_text(name.lower()), qtype, over_udp, is_signed(message, name))
                with self.lock:
                    self.exchanges.append(exchange)
                asked[message[:2]] = exchange

    def note_response(self, message: bytes, asked: dict[bytes, Exchange], over_udp: bool) -> None:
        with suppress(Malformed, struct.error, IndexError):
            if (exchange := asked.get(message[:2])) is not None and exchange.over_udp == over_udp:
                exchange.receive(message)


class FramedMessages:
    """Takes the octets of a stream and returns the complete messages in it; TLS records are no messages and return nothing useful."""

    def __init__(self) -> None:
        self.rest = b""

    def receive(self, octets: bytes) -> list[bytes]:
        self.rest += octets
        messages = []
        while len(self.rest) >= 2 and len(self.rest) >= (end := 2 + int.from_bytes(self.rest[:2])):
            messages.append(self.rest[2:end])
            self.rest = self.rest[end:]
        return messages


def is_signed(message: bytes, name: bytes) -> bool:
    """Whether a query for this name has a TSIG record, which is the last (RFC 8945 5.1)."""
    # The owner of the TSIG record is the key; type, class ANY and TTL 0 follow it.
    return struct.pack(">HHI", TSIG, 255, 0) in message[HEADER + len(name) :]
