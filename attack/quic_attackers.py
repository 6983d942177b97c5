"""QUIC clients that attack a server for some seconds, in a process of their own: `quic_attackers.py KIND PORT SECONDS LEAST`.

Prints `ready` once the attack can begin, and at its end how many datagrams, handshakes or streams it had. On a slow machine it goes on
until it has had at least LEAST.
"""

from __future__ import annotations

import itertools
import select
import sys
import time
from collections.abc import Callable, Iterator

from daemon import HOST
from quic_client import QuicClient, framed

INITIALS, INITIALS_PER_S = 200, 5000
# Clients at a time, and how long one waits for the server's part of the handshake. All attacks have as many handshakes, so that they
# take equal amounts of memory: closed connections have it for seconds.
HANDSHAKES, CLIENTS, PATIENCE_S = 400, 100, 1.0
# Connections at a time. The server lets a client have 16 streams at first, and 100 once it uses them.
ASKING, TRANSFERS = 20, 16
BEGINNING, BEGUN = 60, 150
# After which a client that does not read makes room for another one.
UNREAD_S = 1.0
LONGEST = 10  # times as many seconds as it should last


def client(port: int, network: int, number: int) -> QuicClient:
    """A client with an address of its own, which waits for nothing."""
    made = QuicClient(port, f"127.{network}.{number // 250 % 250}.{number % 250 + 1}")
    made.socket.settimeout(0.001)
    return made


def initials(port: int) -> Iterator[int]:
    """Sends Initials of many clients over and over again, and reads no answer."""
    clients = [client(port, 20, number) for number in range(INITIALS)]
    firsts = [one.quic.datagrams_to_send(now=time.time())[0][0] for one in clients]
    yield 0
    began = time.monotonic()
    for sent, (one, octets) in enumerate(itertools.cycle(zip(clients, firsts, strict=True)), 1):
        one.socket.sendto(octets, (HOST, port))
        time.sleep(max(0.0, began + sent / INITIALS_PER_S - time.monotonic()))
        yield sent


def half_handshakes(port: int) -> Iterator[int]:
    """Gets the server's part of handshakes, with a proof of the address where it asks for one, and is never heard of again."""
    yield 0
    waiting: dict[int, tuple[float, QuicClient]] = {}
    got = 0
    for number in itertools.count():
        if len(waiting) < min(CLIENTS, HANDSHAKES - got):
            one = client(port, 21, number)
            one.send()
            waiting[one.socket.fileno()] = (time.monotonic(), one)
        readable, _, _ = select.select(list(waiting), [], [], 0.001)
        for descriptor in readable:
            _, one = waiting[descriptor]
            octets = one.socket.recv(65536)
            if octets[0] & 0xB0 == 0xB0:  # Retry
                one.quic.receive_datagram(octets, one.server, now=time.time())
                one.send()
            else:
                got += 1
                waiting.pop(descriptor)[1].socket.close()
        late = [descriptor for descriptor, (since, _) in waiting.items() if time.monotonic() - since > PATIENCE_S]
        for descriptor in late:
            waiting.pop(descriptor)[1].socket.close()
        yield got


def keep_connected(
    port: int, network: int, count: int, begin: Callable[[QuicClient], int], is_over: Callable[[float, QuicClient], bool]
) -> Iterator[int]:
    """Keeps this many clients connected; yields how many streams they had.

    `begin` opens the streams of a new client and returns their number. A client makes room for another one when `is_over` says so,
    which gets the time of its connection, too.
    """
    numbers, opened = itertools.count(), 0
    clients: list[tuple[float, QuicClient]] = []
    yield opened
    while True:
        if len(clients) < count:
            one = client(port, network, next(numbers))
            if one.connect():
                opened += begin(one)
                clients.append((time.monotonic(), one))
        over = [entry for entry in clients if is_over(*entry)]
        for entry in over:
            clients.remove(entry)
            entry[1].socket.close()
        if len(clients) == count:
            time.sleep(0.001)
        yield opened


def half_queries(port: int) -> Iterator[int]:
    """Begins more queries than it may, finishes none, and connects again when the server has closed the connection."""

    def begin(one: QuicClient) -> int:
        for _ in range(BEGUN):
            one.stream(framed()[:10], ends=False)
        return BEGUN

    def is_closed(_: float, one: QuicClient) -> bool:
        one.quic.send_ping(0)
        one.run(timeout_s=0.001)
        return one.close_code() is not None

    return keep_connected(port, 22, BEGINNING, begin, is_closed)


def never_read(port: int) -> Iterator[int]:
    """Asks for transfers on the first streams that it may open, and reads nothing of them, not even the packets."""

    def ask(one: QuicClient) -> int:
        for _ in range(TRANSFERS):
            one.stream(framed("example.", "AXFR"))
        one.send()
        return TRANSFERS

    return keep_connected(port, 23, ASKING, ask, lambda since, _: time.monotonic() - since > UNREAD_S)


ATTACKS: dict[str, Callable[[int], Iterator[int]]] = {
    "initials": initials,
    "half-handshakes": half_handshakes,
    "half-queries": half_queries,
    "never-read": never_read,
}


def main(kind: str, port: int, seconds: float, least: int) -> None:
    attack = ATTACKS[kind](port)
    done = next(attack)
    print("ready", flush=True)
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds or (done < least and passed < LONGEST * seconds):
        done = next(attack)
    print(done)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
