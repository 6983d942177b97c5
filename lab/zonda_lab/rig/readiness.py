"""Readiness of a server, by SOA queries; `load/zone_probe.py` asks for many zones."""

import random
import select
import socket
import time

import dns.message

from zonda_lab.errors import LabError
from zonda_lab.rig.host import Host
from zonda_lab.rig.process import Program
from zonda_lab.servers.config import Endpoint


def query(number: int, name: str) -> bytes:
    """A query for the SOA record of `name`, with RD clear and without EDNS."""
    return dns.message.make_query(name, "SOA", id=number, flags=0).to_wire()


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
    # The same query each time, because an answer may take longer than one probe.
    asked = query(random.randrange(65536), zone)
    with client.udp_socket(endpoint) as probe:
        while time.monotonic() - process.began < limit_s:
            process.require_alive()
            if ask(probe, asked, 0.01):
                return time.monotonic() - process.began
            time.sleep(0.002)
    late = f"{process.name} did not answer for {zone} within {limit_s:.0f} s"
    raise LabError(late, detail=f"its log ends: {process.tail()}")


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
