#!/usr/bin/env python3
"""A small `zonda-load` that speaks LOAD-CONTRACT.md: right, but slow (some thousand queries a second). For tests.

With FAKE_LATE_MS in its environment each query leaves so much after its time; FAKE_BUSY is how busy it says it is.
"""

import argparse
import itertools
import json
import os
import select
import socket
import sys
import time
from pathlib import Path

from fake_echo import reflect
from fake_sample import sample
from zone_watch import serial, watch

from zonda_lab.load.latency_histogram import LatencyHistogram
from zonda_lab.rig.readiness import query as message

AXFR = 252
LATE_S = float(os.environ.get("FAKE_LATE_MS", "0")) / 1000
BUSY = float(os.environ.get("FAKE_BUSY", "0.5"))
RCODES = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        print("fake-load 0.1")
        return 0
    top = argparse.ArgumentParser()
    commands = top.add_subparsers(required=True)
    for name, function in COMMANDS.items():
        command = commands.add_parser(name)
        command.set_defaults(run=function, mode=name)
        if name == "xfr":
            command.add_argument("direction", choices=["pull"])
        for option, default in OPTIONS.items():
            command.add_argument(f"--{option}", type=type(default), default=default)
        command.add_argument("--transport", choices=["udp", "tcp"])
        command.add_argument("--find-peak", nargs="?", const="100,99.99,99.9,99")
    given = top.parse_args()
    if given.run in (sample, reflect):
        given.run(given)
        return 0
    say(
        {
            "type": "header",
            "schema_version": 20230208,
            "generator": "fake-load",
            "generator_version": "0.1",
            "stats_interval": 1.0,
            "zonda": {"sending": {"burst": 1, "order": "file", "timestamps": "user"}},
        }
    )
    given.run(given)
    return 0


def say(content: dict) -> None:
    print(json.dumps({"runid": "fake", **content}), flush=True)


def summary(since: float, until: float, figures: dict, own: dict) -> None:
    say({"type": "stats_sum", "since": int(since * 1e9), "until": int(until * 1e9), **figures, "zonda": own})


class Asking:
    """Open loop, or a fixed number of outstanding queries: one socket, one thread, consecutive IDs."""

    def __init__(self, given: argparse.Namespace) -> None:
        lines = Path(given.queries).read_text().splitlines()[:5000]
        self.questions = [message(0, *line.split())[2:] for line in lines]
        self.lines, self.timeout = lines, given.timeout_ms / 1000
        self.expected = Path(given.expect).read_text().splitlines() if given.expect else None
        self.link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.link.connect((given.server, given.port))
        self.waiting: dict[int, tuple[int, float, float]] = {}
        self.counts = {"queries": 0, "responses": 0, "timeouts": 0}
        self.rcodes: dict[str, int] = {}
        self.intended, self.actual, self.errors = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
        self.wrong: list[str] = []
        self.fastest = float("inf")  # answer, in seconds

    def send(self, number: int, due: float) -> None:
        index, now = number % len(self.questions), time.monotonic()
        self.link.send((number % 65536).to_bytes(2, "big") + self.questions[index])
        self.waiting[number % 65536] = (index, due, now)
        self.errors.add(max(0.0, now - due) * 1e6)
        self.counts["queries"] += 1

    def listen(self, until: float) -> None:
        """Takes answers until then; returns at once if the time is over."""
        while select.select([self.link], [], [], max(0.0, until - time.monotonic()))[0]:
            self.take(self.link.recv(65535), time.monotonic())
        for number in [n for n, (_, due, _) in self.waiting.items() if time.monotonic() - due > self.timeout]:
            del self.waiting[number]
            self.counts["timeouts"] += 1
            self.intended.add(self.timeout * 1e6)
            self.actual.add(self.timeout * 1e6)

    def take(self, reply: bytes, now: float) -> None:
        number = int.from_bytes(reply[:2], "big")
        index, due, sent = self.waiting.get(number, (-1, 0.0, 0.0))
        if index < 0 or reply[12 : len(self.questions[index]) + 2] != self.questions[index][10:]:
            return
        del self.waiting[number]
        rcode = RCODES.get(reply[3] & 15, "OTHER")
        self.counts["responses"] += 1
        self.rcodes[rcode] = self.rcodes.get(rcode, 0) + 1
        self.intended.add((now - due) * 1e6)
        self.actual.add((now - sent) * 1e6)
        self.fastest = min(self.fastest, now - sent)
        if self.expected and rcode != (right := self.expected[index].split()[0]):
            self.wrong.append(f"{self.lines[index]}: expected {right}, got {rcode}")


def ask(given: argparse.Namespace) -> None:
    """Queries over UDP."""
    if given.find_peak:
        find_peak(given)
        return
    wall = time.time()
    figures, own = window(given, given.rate)
    summary(wall, wall + given.seconds, figures, own)


def window(given: argparse.Namespace, rate: float) -> tuple[dict, dict]:
    """The figures of one window."""
    asking, began = Asking(given), time.monotonic()
    total = int(rate * given.seconds)
    for number in itertools.count():
        due = began + number / rate if rate else time.monotonic()
        if number == total if rate else due > began + given.seconds:
            break
        asking.listen(due + LATE_S)
        while not rate and len(asking.waiting) >= given.outstanding:
            asking.listen(time.monotonic() + 0.002)
        asking.send(number, due)
    took = time.monotonic() - began
    travel = asking.fastest if asking.counts["responses"] else 0.0
    asking.listen(time.monotonic() + travel + min(0.010, given.seconds / 100))
    within = asking.counts["responses"]
    while asking.waiting:
        asking.listen(time.monotonic() + 0.01)
    own = {
        "loop": "open" if rate else "closed",
        "scheduled": total if rate else None,
        "late": 0,
        "missed": 0,
        "checked": asking.counts["responses"],
        "wrong": len(asking.wrong),
        "wrong_examples": asking.wrong[:10],
        "responses_in_window": within,
        "responses_after_window": asking.counts["responses"] - within,
        "receive_drops": 0,
        "busy": 1.0 if took > given.seconds * 1.1 else BUSY,
        "schedule_error": {"p50": asking.errors.percentile(50) * 1000, "p99": LATE_S * 1e9, "max": 0},
        "latency_intended": asking.intended.encoded(),
        "latency_actual": asking.actual.encoded(),
        "invalid_because": [f"{total} of {total} queries left more than 1 ms after their time"] if LATE_S else [],
    }
    return {**asking.counts, "response_rcodes": asking.rcodes}, own


def find_peak(given: argparse.Namespace) -> None:
    """The search of the contract with one trial per rate, coarse and without an upper limit."""
    wall, peaks, first = time.time(), [], given.rate
    for objective in sorted(map(float, given.find_peak.split(",")), reverse=True):
        low, high, rate, failure = 0.0, None, first, None
        while high is None or (high > max(low, 1.0) * (1 + max(given.resolution, 10) / 100)):
            answered, void = trial(given, rate)
            if not void and answered >= objective / 100:
                low = rate
            else:
                high, failure = rate, "wrong" if void else "unanswered"
            rate = rate * 2 if high is None else (low * high) ** 0.5 if low else rate / 2
        first = max(low, 1.0)
        peaks.append(
            {
                "objective": f"{objective:g}",
                "percent": objective,
                "rate": low,
                "failed_rate": high,
                "failure": failure,
                "generator_bound": False,
                "trials": 1,
            }
        )
    summary(wall, time.time(), {"queries": 1, "responses": 1}, {"peaks": peaks, "invalid_because": []})


def trial(given: argparse.Namespace, rate: float) -> tuple[float, list[str]]:
    since = time.time_ns()
    figures, own = window(given, rate)
    answered = own["responses_in_window"] / max(1, own["scheduled"])
    void = [f"{own['wrong']} answers are wrong"] if own["wrong"] else []
    event = {
        "rate": rate,
        "since": since,
        "until": since + int(given.seconds * 1e9),
        **{name: own[name] for name in ("scheduled", "wrong", "busy", "responses_in_window", "responses_after_window")},
        **{name: figures[name] for name in ("queries", "responses", "timeouts")},
        "answered": answered,
        "on_schedule": True,
        "void_because": void,
    }
    say({"type": "event", "time": time.time_ns(), "msg_type": "trial", "msg": "", "zonda": event})
    return answered, void


def probe_zones(given: argparse.Namespace) -> None:
    """When each zone is answered, with the serial if asked."""
    names = Path(given.zones).read_text().split()
    wall = time.time()
    say({"type": "event", "time": int(wall * 1e9), "msg_type": "probing", "msg": "", "zonda": {}})
    began = time.monotonic()
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.connect((given.server, given.port))
    found = watch(link, names, given.seconds, lambda reply: not given.serial or (serial(reply) or 0) >= given.serial)
    lines = [f"{at - began:.6f} {name} SOA" for name, at in sorted(found.seen.items(), key=lambda item: item[1])]
    Path(given.arrivals).write_text("".join(f"{line}\n" for line in lines))
    reasons = [f"{len(found.missing)} of {len(names)} answers did not arrive"] if found.missing else []
    own = {"questions": len(names), "missing": len(found.missing), "invalid_because": reasons}
    summary(wall, time.time(), {}, own)
    sys.exit(3 if reasons else 0)


def hold(given: argparse.Namespace) -> None:
    """Connections one after the other, with a query on each if asked."""
    began, opened, failed = time.monotonic(), [], 0
    for number in range(given.connections):
        time.sleep(max(0.0, began + number / given.rate - time.monotonic()))
        link = socket.socket()
        link.settimeout(3.0)
        try:
            link.connect((given.server, given.port))
            opened.append(link)
        except OSError:
            failed += 1
    took = time.monotonic() - began
    say({"type": "event", "msg_type": "open", "msg": "all open", "zonda": {"open": len(opened), "failed": failed}})
    probes, latency = [0, 0], LatencyHistogram()
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
    """AXFR of each zone: counts records by ANCOUNT, and ends at the second SOA."""
    totals = {"zones": 0, "failed": 0, "records": 0, "bytes": 0, "messages": 0, "largest_message": 0, "connections": 0}
    began, wall = time.monotonic(), time.time()
    for name in Path(given.zones).read_text().split():
        asked = message(1, name)[:-4] + AXFR.to_bytes(2, "big") + b"\0\1"
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
    """Alternately adds and deletes one name."""
    import dns.query
    import dns.tsig
    import dns.update

    began, wall, sent, done = time.monotonic(), time.time(), 0, 0
    while time.monotonic() < began + given.seconds:
        change = dns.update.UpdateMessage(given.zone)
        change.add("update0", 60, "A", "192.0.2.2") if sent % 2 == 0 else change.delete("update0")
        if given.tsig:
            algorithm, name, secret = given.tsig.split(":")
            change.use_tsig(dns.tsig.Key(name, secret, algorithm))
        reply = dns.query.udp(change, given.server, port=given.port, timeout=1)
        sent, done = sent + 1, done + (reply.rcode() == 0)
        time.sleep(max(0.0, began + sent / given.rate - time.monotonic()))
    summary(
        wall,
        time.time(),
        {"queries": sent, "responses": sent, "response_rcodes": {"NOERROR": done}},
        {"invalid_because": []},
    )


COMMANDS = {
    **dict.fromkeys(("echo", "sink"), reflect),
    **dict.fromkeys(("hold", "hostile"), hold),
    "query": ask,
    "xfr": pull,
    "update": update,
    "probe": probe_zones,
    "sample": sample,
}
TEXTS = "server queries expect arrivals source-prefix zones zone tsig ca tls-name kind listen cert key fault types"
COUNTS = "tls-port answer-octets outstanding serial queries-per-connection edns probe-ms count seed"
NUMBERS = "rate seconds warm-up tcp-share do interval nxdomain referral zipf"
OPTIONS: dict[str, object] = {
    **dict.fromkeys(TEXTS.split(), ""),
    **dict.fromkeys(COUNTS.split(), 0),
    **dict.fromkeys(NUMBERS.split(), 0.0),
    "port": 53,
    "connections": 1,
    "sources": 1,
    "timeout-ms": 1000,
    "resolution": 2.0,
}


if __name__ == "__main__":
    sys.exit(main())
