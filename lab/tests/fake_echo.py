"""`zonda-load echo` and `sink` for tests: the faults of the contract, some thousand queries per second."""

import argparse
import select
import socket
import sys
import threading
import time

from faulty_server import accept, reply

KNOWN = ("stall-every-ms", "stall-ms", "drop-every", "wrong-every")
SERVFAIL = 2


def reflect(given: argparse.Namespace) -> None:
    """Serves until SIGTERM."""
    faults = dict.fromkeys(KNOWN, 0)
    for text in filter(None, given.fault.split(",")):
        name, _, value = text.partition("=")
        if name not in faults:
            print(f"zonda-load: unknown fault {text}", file=sys.stderr)
            sys.exit(2)
        faults[name] = int(value)
    streams = argparse.Namespace(address=given.listen, port=given.port, backlog=0, accepts_per_s=0)
    threading.Thread(target=accept, args=(streams,), daemon=True).start()
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    link.bind((given.listen, given.port))
    count, stalls_at = 0, time.monotonic() + faults["stall-every-ms"] / 1000
    while True:
        select.select([link], [], [])
        if faults["stall-every-ms"] and time.monotonic() > stalls_at:
            time.sleep(faults["stall-ms"] / 1000)
            stalls_at = time.monotonic() + faults["stall-every-ms"] / 1000
        query, client = link.recvfrom(4096)
        if given.mode == "sink" and query[-4:-2] != b"\0\6":
            continue
        count += 1
        if not faults["drop-every"] or count % faults["drop-every"]:
            is_wrong = faults["wrong-every"] and count % faults["wrong-every"] == 0
            link.sendto(reply(query, SERVFAIL if is_wrong else 0), client)
