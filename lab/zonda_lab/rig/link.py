"""A link between two namespaces that delays and loses packets, for kernels without netem; a stand-alone program.

`python link.py --server PATH --client PATH --delay-ms N --loss-percent N --longest OCTETS` makes a TUN device of that
name in each namespace, prints `ready`, and passes packets on until SIGTERM. Packets to the server are delayed; those of
both directions are lost at random, or because they are longer. It passes on about 50,000 packets per second, in the
order in which they came.
"""

import argparse
import collections
import contextlib
import ctypes
import fcntl
import os
import random
import select
import struct
import time
from collections.abc import Iterator
from pathlib import Path

CLONE_NEWNET = 0x40000000
OWN = "/proc/thread-self/ns/net"
LIBC = ctypes.CDLL(None, use_errno=True)
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
LONGEST = 65_536  # octets of a packet
BATCH = 64  # packets read from one end before the other gets its turn
QUEUE = 100_000  # packets under way; more are lost, as in the queue of a router


def main() -> None:
    """Passes packets on until it is ended."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--client", required=True)
    arguments.add_argument("--delay-ms", type=float, default=0.0)
    arguments.add_argument("--loss-percent", type=float, default=0.0)
    arguments.add_argument("--longest", type=int, default=LONGEST)
    given = arguments.parse_args()
    client, server = device("client", given.client), device("server", given.server)
    loss = given.loss_percent / 100
    there = DelayLine(client, server, given.delay_ms / 1000, loss, given.longest)
    lines = (there, DelayLine(server, client, 0.0, loss, given.longest))
    print("ready", flush=True)
    while True:
        forward(lines)


class DelayLine:
    """One direction: packets read from `source` are written to `target` after a delay, or lost."""

    def __init__(self, source: int, target: int, delay_s: float, loss: float, longest: int) -> None:
        self.source, self.target, self.delay_s, self.loss, self.longest = source, target, delay_s, loss, longest
        self.packets = collections.deque[tuple[float, bytes]]()

    def read(self) -> None:
        """Takes what has arrived."""
        for _ in range(BATCH):
            try:
                packet = os.read(self.source, LONGEST)
            except BlockingIOError:
                return
            passes = random.random() >= self.loss and len(packet) <= self.longest
            if passes and len(self.packets) < QUEUE:
                self.packets.append((time.monotonic() + self.delay_s, packet))

    def write(self) -> None:
        """Delivers what is due."""
        while self.packets and self.packets[0][0] <= time.monotonic():
            with contextlib.suppress(OSError):  # a device that is full or down loses packets
                os.write(self.target, self.packets.popleft()[1])

    @property
    def due_s(self) -> float:
        """When to write next."""
        return self.packets[0][0] if self.packets else float("inf")


def forward(lines: tuple[DelayLine, DelayLine]) -> None:
    """Waits until there is something to do, and does it."""
    due_s = min(line.due_s for line in lines)
    wait_s = None if due_s == float("inf") else max(0.0, due_s - time.monotonic())
    ready, _, _ = select.select([line.source for line in lines], [], [], wait_s)
    for line in lines:
        if line.source in ready:
            line.read()
        line.write()


def device(name: str, namespace: str) -> int:
    """A new TUN device (without a header before packets) in a namespace; it exists until its descriptor is closed."""
    with inside(namespace):
        opened = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return opened


@contextlib.contextmanager
def inside(path: str) -> Iterator[None]:
    """Runs the block in another network namespace."""
    with Path(OWN).open() as home, Path(path).open() as there:
        _succeed(LIBC.setns(there.fileno(), CLONE_NEWNET), path)
        try:
            yield
        finally:
            _succeed(LIBC.setns(home.fileno(), CLONE_NEWNET), OWN)


def new_namespace() -> int:
    """The descriptor of a new network namespace, which exists until that is closed."""
    with inside(OWN):
        _succeed(LIBC.unshare(CLONE_NEWNET), OWN)
        return os.open(OWN, os.O_RDONLY)


def _succeed(result: int, path: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


if __name__ == "__main__":
    main()
