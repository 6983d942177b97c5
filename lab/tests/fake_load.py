#!/usr/bin/env python3
"""A small `zonda-load` that speaks LOAD-CONTRACT.md: right, but slow. For the tests of the lab, up to some thousand queries a second."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import select
import socket
import sys
import time
from pathlib import Path

from zonda_lab.hdr import Latency
from zonda_lab.probe import query as message

TYPES = {"AXFR": 252}


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        print("fake-load 0.1")
        return 0
    top = argparse.ArgumentParser()
    commands = top.add_subparsers(required=True)
    for name, function in (("query", ask), ("hold", hold), ("xfr", pull), ("update", update)):
        command = commands.add_parser(name)
        command.set_defaults(run=function)
        if name == "xfr":
            command.add_argument("direction", choices=["pull"])
        for option in (
            "server",
            "transport",
            "queries",
            "expect",
            "arrivals",
            "source-prefix",
            "zones",
            "zone",
            "tsig",
            "ca",
            "tls-name",
        ):
            command.add_argument(f"--{option}")
        for option, default in (
            ("port", 53),
            ("outstanding", 0),
            ("connections", 1),
            ("queries-per-connection", 0),
            ("sources", 1),
            ("timeout-ms", 1000),
            ("edns", 0),
            ("probe-ms", 0),
        ):
            command.add_argument(f"--{option}", type=int, default=default)
        for option in ("rate", "seconds", "warm-up", "tcp-share", "do"):
            command.add_argument(f"--{option}", type=float, default=0.0)
        command.add_argument("--resume", action="store_true")
    given = top.parse_args()
    say(
        {
            "type": "header",
            "schema_version": 20230208,
            "generator": "fake-load",
            "generator_version": "0.1",
            "stats_interval": 1.0,
        }
    )
    return int(given.run(given) or 0)


def say(content: dict) -> None:
    print(json.dumps({"runid": "fake", **content}), flush=True)


def summary(since: float, until: float, figures: dict, own: dict) -> None:
    say({"type": "stats_sum", "since": int(since * 1e9), "until": int(until * 1e9), **figures, "zonda": own})


def ask(given: argparse.Namespace) -> int:
    """Open loop over UDP; a closed loop is one query after the other."""
    lines = [line.split() for line in Path(given.queries).read_text().splitlines()[:5000]]
    expected = (
        [line.split()[0] for line in Path(given.expect).read_text().splitlines()[:5000]] if given.expect else None
    )
    messages = [message(i % 65536, name, qtype) for i, (name, qtype) in enumerate(lines)]
    timeout = given.timeout_ms / 1000
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    link.connect((given.server, given.port))
    began, wall = time.monotonic(), time.time()
    waiting: dict[int, tuple[int, float, float]] = {}
    counts = {"queries": 0, "responses": 0, "timeouts": 0}
    rcodes: dict[str, int] = {}
    intended, actual, errors, wrong, examples = Latency(), Latency(), Latency(), 0, []
    names = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}
    total = int(given.rate * given.seconds) if given.rate else None
    for number in itertools.count():
        due = began + number / given.rate if given.rate else time.monotonic()
        if (total is not None and number >= total and not waiting) or (
            total is None and time.monotonic() > began + given.seconds
        ):
            break
        sending = total is None or number < total
        while True:
            now = time.monotonic()
            if sending and now >= due and (given.rate or len(waiting) < given.outstanding):
                break
            if not sending and (not waiting or now > began + given.seconds + timeout):
                break
            until = due if sending and given.rate else now + 0.01
            if select.select([link], [], [], max(0.0, min(until - now, 0.01)))[0]:
                reply, now = link.recv(65535), time.monotonic()
                found = waiting.pop(int.from_bytes(reply[:2], "big"), None)
                if found is None or reply[12 : len(messages[found[0]])] != messages[found[0]][12:]:
                    continue
                index, planned, sent = found
                counts["responses"] += 1
                rcode = names.get(reply[3] & 15, str(reply[3] & 15))
                rcodes[rcode] = rcodes.get(rcode, 0) + 1
                intended.add((now - planned) * 1e6)
                actual.add((now - sent) * 1e6)
                if expected and rcode != expected[index]:
                    wrong += 1
                    examples.append(f"{' '.join(lines[index])}: expected {expected[index]}, got {rcode}")
            for key in [key for key, (_, planned, _) in waiting.items() if now - planned > timeout]:
                del waiting[key]
                counts["timeouts"] += 1
                intended.add(timeout * 1e6)
                actual.add(timeout * 1e6)
            if sending and not given.rate and len(waiting) < given.outstanding:
                break
        if sending:
            index = number % len(messages)
            now = time.monotonic()
            link.send(messages[index])
            waiting[index % 65536] = (index, due, now)
            errors.add(max(0.0, now - due) * 1e6)
            counts["queries"] += 1
        elif not waiting or time.monotonic() > began + given.seconds + timeout:
            break
    own = {
        "loop": "open" if given.rate else "closed",
        "scheduled": total,
        "late": 0,
        "missed": 0,
        "wrong": wrong,
        "wrong_examples": examples[:10],
        "schedule_error": {"p50": errors.percentile(50) * 1000, "p99": 0, "max": 0},
        "latency_intended": intended.encoded(),
        "latency_actual": actual.encoded(),
        "invalid_because": [],
    }
    summary(wall, wall + given.seconds, {**counts, "response_rcodes": rcodes}, own)
    return 0


def hold(given: argparse.Namespace) -> None:
    """Connections one after the other, with a query on each if asked."""
    began, opened, failed = time.monotonic(), [], 0
    for number in range(given.connections):
        time.sleep(max(0.0, began + number / given.rate - time.monotonic()))
        link = socket.socket()
        link.settimeout(0.3)
        try:
            link.connect((given.server, given.port))
            opened.append(link)
        except OSError:
            failed += 1
    took = time.monotonic() - began
    say({"type": "event", "msg_type": "open", "msg": "all open", "zonda": {"open": len(opened), "failed": failed}})
    probes, latency = [0, 0], Latency()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((given.server, given.port))
        probe.settimeout(0.2)
        lines = Path(given.queries).read_text().splitlines() if given.queries else ["lab.test. SOA"]
        until = time.monotonic() + given.seconds
        for number in itertools.takewhile(lambda _: time.monotonic() < until, itertools.count()):
            sent = time.monotonic()
            probe.send(message(number % 65536, *lines[number % len(lines)].split()))
            probes[0] += 1
            try:
                probe.recv(65535)
                probes[1] += 1
                latency.add((time.monotonic() - sent) * 1e6)
            except TimeoutError:
                pass
            time.sleep(given.probe_ms / 1000)
    own = {
        "open": len(opened),
        "failed": failed,
        "open_s": took,
        "closed_by_peer": 0,
        "first_closed_s": None,
        "last_closed_s": None,
        "latency_intended": latency.encoded(),
    }
    figures = {"queries": probes[0], "responses": probes[1], "timeouts": probes[0] - probes[1]}
    summary(time.time() - given.seconds, time.time(), figures, own)


def pull(given: argparse.Namespace) -> None:
    """AXFR of each zone: counts answers by the headers, and ends at the second SOA."""
    totals = {"zones": 0, "failed": 0, "records": 0, "bytes": 0, "messages": 0, "largest_message": 0, "connections": 0}
    began, wall = time.monotonic(), time.time()
    for name in Path(given.zones).read_text().split():
        asked = message(1, name)[:-4] + TYPES["AXFR"].to_bytes(2, "big") + b"\0\1"
        with socket.create_connection((given.server, given.port)) as link, link.makefile("rb") as stream:
            link.sendall(len(asked).to_bytes(2, "big") + asked)
            totals["connections"] += 1
            records = soas = 0
            while soas < 2 and (head := stream.read(2)):
                body = stream.read(int.from_bytes(head, "big"))
                records += int.from_bytes(body[6:8], "big")
                totals["bytes"] += len(body) + 2
                totals["messages"] += 1
                totals["largest_message"] = max(totals["largest_message"], len(body))
                soas += b"\0\6\0\1" in body[-90:] or records == 1
                soas += totals["messages"] == 1 and soas and records > 1
            totals["zones"] += 1
            totals["failed"] += soas < 2
            totals["records"] += records - 1
    own = {**totals, "seconds": time.monotonic() - began, "first_byte_s": 0.0, "invalid_because": []}
    summary(wall, time.time(), {"queries": totals["zones"], "responses": totals["zones"]}, own)


def update(given: argparse.Namespace) -> None:
    """Adds and deletes one name in turn."""
    import dns.query
    import dns.update

    began, wall, sent, done = time.monotonic(), time.time(), 0, 0
    while time.monotonic() < began + given.seconds:
        change = dns.update.UpdateMessage(given.zone)
        change.add("update0", 60, "A", "192.0.2.2") if sent % 2 == 0 else change.delete("update0")
        reply = dns.query.udp(change, given.server, port=given.port, timeout=1)
        sent, done = sent + 1, done + (reply.rcode() == 0)
        time.sleep(max(0.0, began + sent / given.rate - time.monotonic()))
    summary(
        wall,
        time.time(),
        {"queries": sent, "responses": sent, "response_rcodes": {"NOERROR": done}},
        {"invalid_because": []},
    )


if __name__ == "__main__":
    os.environ.pop("PYTHONSTARTUP", None)
    sys.exit(main())
