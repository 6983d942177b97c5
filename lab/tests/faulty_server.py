#!/usr/bin/env python3
"""A DNS server with one chosen fault, which the lab must notice. Its answers are NOERROR copies of the query.

Faults that `zonda-load echo --fault` has are not repeated here.
"""

import argparse
import collections
import contextlib
import select
import socket
import threading
import time

SERVFAIL = 2
OWN_THREADS = 2  # those that answer over UDP and accept connections
STAMP_S = 0.25  # over which the arrival rate is measured


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("address")
    arguments.add_argument("port", type=int)
    for option, meaning in (
        ("answers-per-s", "answers at this rate, buffers all further queries, and drains after the load"),
        ("wrong-above", "SERVFAIL while more queries per second arrive"),
        ("drop-above", "no answers to queries beyond this rate: an honest limit"),
        ("only-names", "answers for so many names only, the first that are asked for"),
        ("delay-ms", "each answer leaves this much later, at any rate: a closed loop sees a low ceiling"),
        ("backlog", "length of the listen queue"),
        ("accepts-per-s", "connections accepted per second; 0: no limit"),
        ("answers-first", "over TCP, answers for so many queries of each connection only; 0: no limit"),
        ("keeps", "connections kept open; further ones are closed as soon as they are accepted; 0: no limit"),
        ("own-buffer", "sets its receive buffer again and again, whatever others set"),
    ):
        arguments.add_argument(f"--{option}", type=float, default=0.0, help=meaning)
    given = arguments.parse_args()
    threading.Thread(target=accept, args=(given,), daemon=True).start()
    answer(given)


def answer(given: argparse.Namespace) -> None:
    """Queries and answers over UDP."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    link.bind((given.address, given.port))
    waiting: collections.deque[tuple[float, bytes, object]] = collections.deque()
    arrived: collections.deque[float] = collections.deque()
    names, free_at = set[bytes](), 0.0
    while True:
        if given.own_buffer:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(given.own_buffer))
        due = max(waiting[0][0], free_at) if waiting else time.monotonic() + 0.1
        if select.select([link], [], [], max(0.0, due - time.monotonic()))[0]:
            query, client = link.recvfrom(4096)
            now = time.monotonic()
            rate = arrival_rate(arrived, now)
            if len(names) < given.only_names:
                names.add(question(query))
            is_known = not given.only_names or question(query) in names
            if is_known and (not given.drop_above or rate <= given.drop_above):
                rcode = SERVFAIL if given.wrong_above and rate > given.wrong_above else 0
                waiting.append((now + given.delay_ms / 1000, reply(query, rcode), client))
        while waiting and max(waiting[0][0], free_at) <= time.monotonic():
            _, message, client = waiting.popleft()
            link.sendto(message, client)
            free_at = max(free_at, time.monotonic()) + 1 / given.answers_per_s if given.answers_per_s else 0.0


def arrival_rate(arrived: collections.deque[float], now: float) -> float:
    arrived.append(now)
    while arrived[0] < now - STAMP_S:
        arrived.popleft()
    return len(arrived) / STAMP_S


def question(query: bytes) -> bytes:
    """The name that is asked for, in lower case."""
    return query[12 : query.index(0, 12)].lower()


def reply(query: bytes, rcode: int) -> bytes:
    """The query with QR and AA set, and one answer counted, which is enough for readiness probes."""
    return query[:2] + bytes([query[2] | 0x84, rcode]) + query[4:6] + b"\0\1" + query[8:]


def accept(given: argparse.Namespace) -> None:
    """Accepts connections and answers what they ask."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((given.address, given.port))
    listener.listen(int(given.backlog) or 1024)
    while True:
        try:
            link, _ = listener.accept()
        except OSError:  # out of descriptors
            time.sleep(0.01)
            continue
        if given.keeps and threading.active_count() - OWN_THREADS >= given.keeps:
            link.close()
            continue
        threading.Thread(target=serve, args=(link, int(given.answers_first)), daemon=True).start()
        if given.accepts_per_s:
            time.sleep(1 / given.accepts_per_s)


def serve(link: socket.socket, answers: int) -> None:
    """Answers what a connection asks, or the first queries of it."""
    asked = 0
    with link, link.makefile("rb") as stream, contextlib.suppress(OSError):
        while len(head := stream.read(2)) == 2:
            message = reply(stream.read(int.from_bytes(head, "big")), 0)
            asked += 1
            if not answers or asked <= answers:
                link.sendall(len(message).to_bytes(2, "big") + message)


if __name__ == "__main__":
    main()
