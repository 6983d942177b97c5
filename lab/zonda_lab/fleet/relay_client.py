"""The lab's side of `relay.py`: sends and receives datagrams through a host, and reads its clocks."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.fleet.clock_offset import ClockOffset, Exchange, estimate
from zonda_lab.fleet.relay import CLOCKS, HEAD, LARGEST
from zonda_lab.server_config import Endpoint

CLOCK = Endpoint("0.0.0.0", 0)
EXCHANGES = 20
CLOCK_S = 5.0  # longest wait for a clock


class RelayClient:
    """Local sockets that are relayed to UDP on the host."""

    def __init__(self, name: str, channel: Any) -> None:
        self._name, self._channel = name, channel
        self._here: dict[tuple[str, int], socket.socket] = {}
        self._sending = threading.Lock()
        threading.Thread(target=self._receive, name=f"{name} relay", daemon=True).start()

    def open(self, endpoint: Endpoint) -> socket.socket:
        """A socket whose datagrams go to `endpoint`; the last one opened receives the answers."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._here[endpoint.address, endpoint.port] = theirs
        threading.Thread(target=self._send, args=(endpoint, theirs), name=f"{self._name} out", daemon=True).start()
        return ours

    def clock(self) -> tuple[ClockOffset, float]:
        """The offset of its monotonic clock, and its real time minus ours in seconds."""
        exchanges, real_s = list[Exchange](), 0.0
        with self.open(CLOCK) as asking:
            asking.settimeout(CLOCK_S)
            for _ in range(EXCHANGES):
                sent, real = time.monotonic(), time.time()
                asking.send(b"?")
                try:
                    monotonic_ns, real_ns = CLOCKS.unpack(asking.recv(CLOCKS.size))
                except OSError:
                    raise LabError(f"{self._name}: its clock does not answer") from None
                exchanges.append(Exchange(sent, monotonic_ns / 1e9, time.monotonic()))
                real_s = real_ns / 1e9 - real
        return estimate(exchanges), real_s

    def _send(self, endpoint: Endpoint, theirs: socket.socket) -> None:
        """Sends frames until the socket is closed."""
        with theirs, contextlib.suppress(OSError):
            while payload := theirs.recv(LARGEST):
                with self._sending:
                    address = socket.inet_aton(endpoint.address)
                    self._channel.sendall(HEAD.pack(address, endpoint.port, len(payload)) + payload)

    def _receive(self) -> None:
        """Distributes received frames until the connection ends."""
        with contextlib.suppress(OSError), self._channel.makefile("rb") as frames:
            while len(head := frames.read(HEAD.size)) == HEAD.size:
                address, port, length = HEAD.unpack(head)
                payload = frames.read(length)
                theirs = self._here.get((socket.inet_ntoa(address), port))
                with contextlib.suppress(OSError):  # closed by its user, or full: the datagram is lost
                    theirs.send(payload, socket.MSG_DONTWAIT) if theirs else None
