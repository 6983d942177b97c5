"""Probes by SOA queries: readiness of a server, the serial it serves, the arrival time of zones."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dns.exception
import dns.message
import dns.rdatatype

from zonda_lab.errors import LabError
from zonda_lab.host import Host
from zonda_lab.process import Program
from zonda_lab.server_config import Endpoint

TYPES = {"A": 1, "NS": 2, "SOA": 6, "TXT": 16, "AAAA": 28}
BATCH = 64  # outstanding probes
RETRY_QPS = 5_000  # probes per second for zones not answered yet


def query(number: int, name: str, qtype: str = "SOA") -> bytes:
    """A query message, with RD clear and without EDNS."""
    labels = [label.encode() for label in name.rstrip(".").split(".") if label]
    question = b"".join(bytes([len(label)]) + label for label in labels) + b"\0" + struct.pack(">HH", TYPES[qtype], 1)
    return struct.pack(">HHHHHH", number, 0, 1, 0, 0, 0) + question


def is_answer(asked: bytes, reply: bytes) -> bool:
    """Whether `reply` answers the query `asked` with NOERROR and a non-empty answer section."""
    return (
        len(reply) >= len(asked)
        and reply[:2] == asked[:2]
        and reply[2] & 0x80 != 0
        and reply[3] & 0x0F == 0
        and reply[6:8] != b"\0\0"
        and reply[12 : len(asked)].lower() == asked[12:].lower()
    )


def wait_ready(process: Program, client: Host, endpoint: Endpoint, zone: str, limit_s: float) -> float:
    """Seconds from the start of `process` until it answers for `zone`."""
    asked = query(
        random.randrange(65536), zone
    )  # the same query each time, because an answer may take longer than one probe
    with client.udp_socket(endpoint) as probe:
        while time.monotonic() - process.began < limit_s:
            process.require_alive()
            if ask(probe, asked, 0.01):
                return time.monotonic() - process.began
            time.sleep(0.002)
    raise LabError(
        f"{process.name} did not answer for {zone} within {limit_s:.0f} s", detail=f"its log ends: {process.tail()}"
    )


def ask(probe: socket.socket, asked: bytes, timeout_s: float) -> bytes | None:
    """The answer to `asked`; None on timeout."""
    try:
        probe.send(asked)
        while select.select([probe], [], [], timeout_s)[0]:
            reply = probe.recv(65535)
            if is_answer(asked, reply):
                return reply
    except ConnectionError:  # not listening yet
        return None
    return None


def serial(reply: bytes) -> int | None:
    """The SOA serial in an answer."""
    try:
        message = dns.message.from_wire(reply)
    except dns.exception.DNSException:
        return None
    return next((rrset[0].serial for rrset in message.answer if rrset.rdtype == dns.rdatatype.SOA), None)


@dataclass
class Arrivals:
    """When each zone was first answered, in seconds of the monotonic clock, and the zones never answered."""

    seen: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def watch(
    probe: socket.socket,
    zones: Sequence[str],
    limit_s: float,
    accept: Callable[[bytes], bool] = lambda _: True,
    tick: Callable[[], None] = lambda: None,
) -> Arrivals:
    """Repeats SOA queries for every zone until `accept` accepts an answer for each, or until the timeout.

    Unanswered zones are probed at most `RETRY_QPS` times per second in total, to limit the load.
    """
    arrivals, waiting, deadline = Arrivals(), {name: query(0, name)[2:] for name in zones}, time.monotonic() + limit_s
    pending: list[str] = []
    while waiting and time.monotonic() < deadline:
        pending = pending or list(waiting)[::-1]
        batch = {name: waiting[name] for name in (pending.pop() for _ in range(min(BATCH, len(pending))))}
        for name, reply in _round(probe, batch):
            if accept(reply):
                arrivals.seen[name] = time.monotonic()
                del waiting[name], batch[name]
        time.sleep(len(batch) / RETRY_QPS)
        tick()
    arrivals.missing = list(waiting)
    return arrivals


def watch_serial(probe: socket.socket, zone: str, wanted: int, limit_s: float) -> float | None:
    """When the zone was first served with this serial; None on timeout."""
    return watch(probe, [zone], limit_s, lambda reply: serial(reply) == wanted).seen.get(zone)


def _round(probe: socket.socket, messages: Mapping[str, bytes], timeout_s: float = 0.01) -> Iterator[tuple[str, bytes]]:
    """Sends one query per name and yields the answers that arrive in time; ignores later ones."""
    first = random.randrange(65536 - len(messages))
    asked = dict(enumerate(messages, first))
    try:
        for number, name in asked.items():
            probe.send(number.to_bytes(2, "big") + messages[name])
        until = time.monotonic() + timeout_s
        while asked and select.select([probe], [], [], max(0.0, until - time.monotonic()))[0]:
            for reply in _received(probe):
                name = asked.pop(int.from_bytes(reply[:2], "big"), "")
                if name and is_answer(reply[:2] + messages[name], reply):
                    yield name, reply
    except ConnectionError:  # not listening yet
        time.sleep(timeout_s)


def _received(probe: socket.socket) -> Iterator[bytes]:
    """Yields all datagrams received so far."""
    with contextlib.suppress(BlockingIOError):
        while True:
            yield probe.recv(65535, socket.MSG_DONTWAIT)
