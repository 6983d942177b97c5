"""When zones are answered: the oracle of the tests, and the prober of `fake_load.py`."""

import contextlib
import random
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dns.exception
import dns.message
import dns.rdatatype

from zonda_lab.rig.readiness import is_answer, query

BATCH = 64  # outstanding probes
RETRY_QPS = 5_000  # probes per second for zones not answered yet


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
