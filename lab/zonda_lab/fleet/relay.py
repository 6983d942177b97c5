"""Relays datagrams between the lab and the network of a host, over SSH. Standard library only.

`python3 relay.py FOLDER`: each frame on standard input (address, port, length, payload) is sent as a datagram;
received datagrams are printed in the same format. A frame to port 0 is answered with the clocks, monotonic and real, in
nanoseconds. When the connection ends, FOLDER, which holds the lab's files of this session, is removed, unless the lab
has come back meanwhile by another connection.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import sys
import threading
import time
from pathlib import Path

HEAD = struct.Struct("!4sHH")
CLOCKS = struct.Struct("!qq")
LARGEST = 65535
SETTLE_S = 1.0  # time for the guards to kill programs that still write into the folder


def main() -> None:
    """Relays until the connection ends."""
    network = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    writing = threading.Lock()

    def answer(address: bytes, port: int, payload: bytes) -> None:
        with writing:
            sys.stdout.buffer.write(HEAD.pack(address, port, len(payload)) + payload)
            sys.stdout.buffer.flush()

    def listen() -> None:
        while True:
            payload, (address, port) = network.recvfrom(LARGEST)
            answer(socket.inet_aton(address), port, payload)

    threading.Thread(target=listen, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while len(head := sys.stdin.buffer.read(HEAD.size)) == HEAD.size:
            address, port, length = HEAD.unpack(head)
            payload = sys.stdin.buffer.read(length)
            if port == 0:
                answer(address, port, CLOCKS.pack(time.monotonic_ns(), time.time_ns()))
                continue
            with contextlib.suppress(OSError):  # the datagram is lost
                network.sendto(payload, (socket.inet_ntoa(address), port))


def clean_up(folder: Path, owner: Path) -> None:
    """Removes the folder unless another relay has taken it over."""
    time.sleep(SETTLE_S)
    with contextlib.suppress(OSError):
        if owner.read_text() == str(os.getpid()):
            shutil.rmtree(folder)


if __name__ == "__main__":
    session = Path(sys.argv[1])
    (session / "relay.pid").write_text(str(os.getpid()))
    try:
        main()
    finally:
        clean_up(session, session / "relay.pid")
