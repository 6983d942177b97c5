"""Asks a server over UDP: when does it answer?"""

from __future__ import annotations

import socket
import struct
import time

SOA, AXFR, A = 6, 252, 1


def question(name: str, rtype: int, number: int = 1, opcode: int = 0) -> bytes:
    """A message with a question and no other records."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label)
    return struct.pack("!6H", number, opcode << 11, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", rtype, 1)


def udp_client(port: int, timeout_s: float) -> socket.socket:
    """A connected socket."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(("127.0.0.1", port))
    client.settimeout(timeout_s)
    return client


def is_answered(client: socket.socket, query: bytes) -> bool:
    """Whether the response to a query has an answer."""
    try:
        client.send(query)
        response = client.recv(4096)
        while response[:2] != query[:2]:
            response = client.recv(4096)
    except OSError:
        return False
    return response[3] & 15 == 0 and response[7] > 0


def wait_until_answered(port: int, query: bytes, seconds: float = 600) -> float:
    """Returns the time of the first answer."""
    began = time.monotonic()
    with udp_client(port, 0.02) as client:
        while not is_answered(client, query):
            if time.monotonic() - began > seconds:
                raise SystemExit(f"no answer on port {port} after {seconds} s")
            time.sleep(0.0005)
    return time.monotonic()
