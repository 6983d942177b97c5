#!/usr/bin/env python3
"""Latency of well-behaved clients while the server is disturbed, and while a process beside it is.

usage: bench/beside.py [--rounds N] [--seconds S] [--rate N] [--only KIND ...] [--json FILE]

Disturbances are the hostile clients of `zonda-load hostile` (floods of reset connections and of TLS and QUIC handshakes, 15,000 silent TCP and
1,000 silent QUIC connections, and others) and AXFRs, one after another. Each runs against the server, and against a process beside it that does
as little as possible: `zonda-load sink`, for AXFR the null primary `zonda-load xfr serve`. The sink has no QUIC: there the process beside is
another `zonda`, so that the ratio shows only what its threads delay each other. The server, with default limits, and that process share CPU 0,
all clients CPU 1. So the two windows differ in the disturbed process only, and the ratio of their p99 is what the server adds.

Well-behaved clients ask over UDP, by default so fast that the server uses 30 % of CPU 0, and on 20 open connections each of TCP, TLS and QUIC.
These are open before the disturbance, which begins half a second before the window. A round has a quiet window and two for each kind, in random
order.

p50, p99       from when a query should have been sent, so they include waiting for CPU 1. Medians of the rounds
ratio of p99   server to beside in the same round: median, least, most. The target is met if the median is no larger; `!` marks the others
since sending  the ratio from the time of sending, which over UDP ends when the kernel has the response: CPU 1 hardly matters

The second table is about the disturbed server, the largest of the rounds. Held at the end of the window: files, resident memory, kernel
memory of its TCP sockets, and objects in the kernel of both ends (slab; only root can read them). `peak` is the largest sum of TCP buffers
of both ends. `back` is the time until files and buffers were as before: 10 s, the idle timeout, if clients of a flood had gone before the
kernel opened their connections.
QUIC connections have neither files nor TCP buffers: only resident memory shows them.
What stayed then: files, and the growth of resident memory in the first and in the last round; a leak grows in every round. `done` is
connections opened, or MB transferred, from the server and beside; `closed` is those that the server closed itself.

Nothing else may run: other sessions take their share of both CPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from queries import SOA, question, wait_until_answered
from server_process import LOAD, ROOT, ServerProcess, result_in, serving, started
from zones import write_root_zone, write_tld_zone

sys.path.append(str(ROOT / "lab"))
from zonda_lab.rig import kernel_memory

PRIMARY_PORT, SECOND_PORT = 5385, 5386
#: Where each transport is attacked.
PORTS = {
    "server": {"udp": 5381, "tcp": 5381, "tls": 5382, "quic": 5387},
    "beside": {"tcp": 5383, "tls": 5384, "quic": 5388},
}
PORT, SINK_PORT = PORTS["server"]["tcp"], PORTS["beside"]["tcp"]
#: Connections of each kind, opened during the window and held. The names of those over QUIC begin with it.
HELD = {"half-query": 1000, "byte-a-second": 1000, "never-read": 400, "random": 1000, "silence": 15_000, "quic-silence": 1000}
#: Connections per second, each closed once it is established, over TCP and TLS by a reset.
FLOODS = {"reset": 2000, "handshake": 500, "quic-handshake": 300}
KINDS = [*HELD, *FLOODS, "axfr"]
TRANSPORTS = ("udp", "tcp", "tls", "quic")
#: Queries per second on the open connections of each transport.
CONNECTION_RATE = 500
LOAD_SHARE = 0.3
#: Of the zone that is transferred, which has 8 MB.
DELEGATIONS = 100_000
WARM_UP_S = 1.0
#: The longest wait until the server is as before.
RECOVERY_S = 15.0
#: The kernel leaves up to 1 MiB for each CPU out of the sum of TCP buffers.
BUFFER_SLACK = 2 << 20
SOCKET_MEMORY = re.compile(r"skmem:\(r(\d+),rb\d+,t\d+,tb\d+,f(\d+),w(\d+),o(\d+),bl(\d+)")


def server_config(folder: Path, port: int, quic_port: int, more: str = "") -> str:
    """A server of the root zone over UDP, TCP and QUIC, and what another line says."""
    return (
        f'[server]\nlisten = ["127.0.0.1:{port}"]\nlisten-quic = ["127.0.0.1:{quic_port}"]\ntls-self-signed = true\n{more}\nworkers = 1\n'
        f'tcp-workers = 1\nstate-dir = "{folder}/state-{port}"\n\n[[zone]]\nname = "."\nfile = "{folder}/root.zone"\n\n'
    )


@contextmanager
def processes(folder: Path) -> Iterator[ServerProcess]:
    """The server and the processes beside it, all of which answer."""
    write_root_zone(folder)
    write_tld_zone(folder / "tld.zone", DELEGATIONS)
    (folder / "zones").write_text(f"tld {folder}/tld.zone\n")
    (folder / "names").write_text("tld\n" * 100_000)
    listen_tls = f'listen-tls = ["127.0.0.1:{PORTS["server"]["tls"]}"]'
    config = server_config(folder, PORT, PORTS["server"]["quic"], listen_tls) + (
        f'[[zone]]\nname = "tld"\nfile = "{folder}/tld.zone"\nallow-transfer = ["127.0.0.0/8"]\n'
    )
    second = serving(folder / "second", server_config(folder, SECOND_PORT, PORTS["beside"]["quic"]))
    listen = ["--listen", "127.0.0.1", "--port"]
    sink = started([LOAD, "sink", *listen, str(SINK_PORT), "--tls-port", str(PORTS["beside"]["tls"])], folder / "sink", cpu=0)
    primary = started([LOAD, "xfr", "serve", *listen, str(PRIMARY_PORT), "--zones", f"{folder}/zones"], folder / "primary", cpu=0)
    with serving(folder, config) as server, second, sink, primary:
        for port, name in ((PORT, "."), (PORT, "tld"), (SECOND_PORT, "."), (SINK_PORT, "."), (PRIMARY_PORT, "tld")):
            wait_until_answered(port, question(name, SOA), seconds=20)
        server.wait_until_idle()
        yield server


@dataclass
class Bench:
    """A server, how it is measured, and the windows so far in rounds."""

    folder: Path
    server: ServerProcess
    seconds: float
    rate: float = 0
    rounds: list[list[dict]] = field(default_factory=list)

    def clients(self, transport: str, *pace: str) -> list[str]:
        """The command of well-behaved clients."""
        target = ["--server", "127.0.0.1", "--port", str(PORTS["server"][transport]), "--queries", f"{self.folder}/queries"]
        timing = ["--seconds", str(self.seconds), "--warm-up", str(WARM_UP_S)]
        if transport == "quic":
            return [LOAD, "quic", *target, *timing, "--query-rate", str(CONNECTION_RATE)]
        # No intervals: each would be a long line.
        timing += ["--transport", transport, "--interval", "100000"]
        return [LOAD, "query", *target, *timing, *pace, *(["--kernel-timestamps"] if transport == "udp" else [])]

    def disturbance(self, kind: str, place: str) -> list[str]:
        """The command of clients that disturb the server, or the process beside it."""
        to = ["--server", "127.0.0.1", "--port"]
        if kind == "axfr":
            return [LOAD, "xfr", "pull", *to, str(PORT if place == "server" else PRIMARY_PORT), "--zones", f"{self.folder}/names"]
        rate = FLOODS.get(kind) or HELD[kind] / self.seconds
        transport = "quic" if kind.startswith("quic-") else "tls" if kind == "handshake" else "tcp"
        to += [str(PORTS[place][transport]), "--transport", transport]
        pace = ["--rate", str(rate), "--connections", str(HELD.get(kind) or int(rate * (self.seconds + 30))), "--seconds", "600"]
        # So many addresses that none has more connections than the server allows one client by default.
        return [LOAD, "hostile", "--kind", kind.removeprefix("quic-"), *to, *pace, "--sources", "16", "--source-prefix", "127.1.0.0/16"]

    def resources(self) -> dict[str, float]:
        """The server's files and memory, and the kernel memory of both ends of all TCP connections, in octets."""
        files = len(list((self.server.proc / "fd").iterdir()))
        rss = self.server.memory("status", "VmRSS:")
        found = {"files": files, "rss": rss, "buffers": kernel_memory.buffer_octets()}
        slab = kernel_memory.slab_octets()
        return found if slab is None else {**found, "slab": slab}

    def find_rate(self) -> float:
        """The rate at which the server uses its share of a processor. An answer costs more at low rates, as batches are smaller."""
        self.rate = LOAD_SHARE * self.closed_loop_rate()
        for _ in range(5):
            share = self.measure("quiet", "")["cpu"]
            if abs(share - LOAD_SHARE) < 0.03:
                break
            self.rate *= LOAD_SHARE / share
        return round(self.rate)

    def closed_loop_rate(self) -> float:
        with started(self.clients("udp", "--outstanding", "200"), self.folder / "closed", cpu=1) as loop:
            loop.wait(WARM_UP_S + self.seconds + RECOVERY_S)
        result = result_in((self.folder / "closed").read_text())
        return result["zonda"]["responses_in_window"] * 1e9 / (result["until"] - result["since"])

    def measure(self, kind: str, place: str) -> dict:
        """A window: latencies, what the server held at its end, and what stayed."""
        before, out = self.resources(), self.folder / "disturbance"
        rates = {name: self.rate if name == "udp" else CONNECTION_RATE for name in TRANSPORTS}
        commands = {name: self.clients(name, "--rate", str(rate)) for name, rate in rates.items()}
        began, cpu_s = time.monotonic(), self.server.cpu_s()
        with ExitStack() as running:
            clients = [running.enter_context(started(command, self.folder / name, cpu=1)) for name, command in commands.items()]
            time.sleep(WARM_UP_S / 2)
            if place:
                running.enter_context(started(self.disturbance(kind, place), out, cpu=1))
            peak = self.wait(clients, out if kind in HELD else None)
            cpu = (self.server.cpu_s() - cpu_s) / (time.monotonic() - began)
            held = {**self.resources(), "sockets": socket_octets(), "peak": peak}
        before["peak"] = before["buffers"]
        back_s, after = self.wait_until_back(before)
        return {
            "kind": kind,
            "place": place,
            "cpu": cpu,
            "latency": {name: latency(result_in((self.folder / name).read_text())) for name in TRANSPORTS},
            "held": {name: value - before.get(name, 0) for name, value in held.items()},
            "back_s": back_s,
            "stayed": {name: value - before[name] for name, value in after.items()},
            "disturbance": result_in(out.read_text())["zonda"] if place else {},
        }

    def wait(self, clients: list[subprocess.Popen[bytes]], opening: Path | None) -> float:
        """Waits until the clients have ended and connections have been opened. Returns the largest sum of TCP buffers."""
        end, peak = time.monotonic() + WARM_UP_S + self.seconds + RECOVERY_S, 0
        while time.monotonic() < end:
            peak = max(peak, kernel_memory.buffer_octets())
            if all(client.poll() is not None for client in clients) and (not opening or b'"msg_type":"open"' in opening.read_bytes()):
                break
            time.sleep(0.1)
        return peak

    def wait_until_back(self, before: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """Waits until files and buffers are as before; returns how long each took, and what there is then."""
        if self.server.process.poll() is not None:
            raise SystemExit(f"the server has ended: {(self.folder / 'log').read_text()[-2000:]}")
        began, back_s = time.monotonic(), {}
        while True:
            now, waited_s = self.resources(), time.monotonic() - began
            for name, slack in (("files", 0), ("buffers", BUFFER_SLACK)):
                if now[name] <= before[name] + slack or waited_s > RECOVERY_S:
                    back_s.setdefault(name, waited_s)
            if len(back_s) == 2:
                return back_s, now
            time.sleep(0.1)

    def windows(self, kind: str, place: str) -> list[dict]:
        """Those of this kind, one for each round."""
        return [window for windows in self.rounds for window in windows if (window["kind"], window["place"]) == (kind, place)]


def socket_octets() -> int:
    """Kernel memory of the server's TCP sockets: received, reserved, not acknowledged, options, backlog."""
    command = ["ss", "-Htnm", f"( sport = :{PORT} or sport = :{PORTS['server']['tls']} )"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Memory that the kernel has reserved for a socket may be negative, which ss shows as a number near 2^32.
    return sum(int(octets) for found in SOCKET_MEMORY.findall(listed) for octets in found if int(octets) < 1 << 31)


def latency(result: dict) -> dict:
    """Quantiles in microseconds, and what was wrong. Queries that left late are in the quantiles, so that is not."""
    zonda = result["zonda"]
    wrong = [reason for reason in zonda["invalid_because"] if "after their time" not in reason]
    wrong += [f"{name} {count}" for name, count in (("timeouts", result["timeouts"]), ("closed early", zonda["closed_early"])) if count]
    intended, sent = zonda["quantiles_intended"], zonda["quantiles_actual"]
    return {"p50": intended["p50"] / 1e3, "p99": intended["p99"] / 1e3, "sent_p99": sent["p99"] / 1e3, "wrong": wrong}


def show_latencies(bench: Bench, kinds: list[str]) -> None:
    """The first table."""
    spread = f"{'median':>8}{'least':>7}{'most':>7}"
    print(f"\n{'':19}{'p50, us':^24}{'p99, us':^24}{'ratio of p99':^22}{'':8}{'since sending':^22}")
    print(f"{'':19}" + f"{'quiet':>8}{'server':>8}{'beside':>8}" * 2 + f"{spread}{'target':>8}{spread}")
    for kind, transport in ((kind, transport) for kind in kinds for transport in TRANSPORTS):
        places = [bench.windows("quiet", ""), bench.windows(kind, "server"), bench.windows(kind, "beside")]
        values = {name: [[window["latency"][transport][name] for window in place] for place in places] for name in ("p50", "p99", "sent_p99")}
        cells = "".join(f"{median(place):8.0f}" for name in ("p50", "p99") for place in values[name])
        for name in ("p99", "sent_p99"):
            ratios = [server / max(beside, 1e-3) for server, beside in zip(*values[name][1:], strict=True)]
            cells += f"{median(ratios):8.2f}{min(ratios):7.2f}{max(ratios):7.2f}"
            if name == "p99":
                target = 2.0 if kind != "axfr" else 1.2 if transport == "udp" else None
                cells += f"{target:7.1f}{' ' if median(ratios) <= target else '!'}" if target else f"{'':8}"
        print(f"{kind:15}{transport:4}{cells}")


def show_resources(bench: Bench, kinds: list[str]) -> None:
    """The second table."""
    print(f"\n{'':14}{'held':^43}{'peak':>9}{'back, s':^18}")
    head = f"{'':14}{'files':>8}{'RSS MB':>9}{'sockets MB':>12}{'slab MB':>14}{'MB':>9}{'files':>9}{'buffers':>9}"
    print(f"{head}  stayed: files, RSS kB; done; closed")
    for kind in kinds:
        windows, beside = bench.windows(kind, "server"), bench.windows(kind, "beside")
        held = {name: max(window["held"][name] for window in windows) for name in windows[0]["held"]}
        memory = "".join(megabytes(held.get(name), width) for name, width in (("rss", 9), ("sockets", 12), ("slab", 14), ("peak", 9)))
        files = max(window["stayed"]["files"] for window in windows)
        first, last = (window["stayed"]["rss"] / 1e3 for window in (windows[0], windows[-1]))
        done = ", ".join(f"{median(amount(window['disturbance']) for window in place):.0f}" for place in (windows, beside))
        closed = max(window["disturbance"].get("closed_by_peer", 0) for window in windows)
        back = "".join(f"{max(window['back_s'][name] for window in windows):9.1f}" for name in ("files", "buffers"))
        print(f"{kind:14}{held['files']:8.0f}{memory}{back}  {files:.0f}, {first:+.0f} {last:+.0f}; {done}; {closed}")


def megabytes(octets: float | None, width: int) -> str:
    return f"{'not readable':>{width}}" if octets is None else f"{octets / 1e6:{width}.1f}"


def amount(done: dict) -> float:
    """MB transferred, or connections opened."""
    return done["bytes"] / 1e6 if "bytes" in done else done["open"]


def show_notes(bench: Bench) -> None:
    """What was wrong in single windows."""
    for number, window in ((number, window) for number, windows in enumerate(bench.rounds, 1) for window in windows):
        notes = [f"{name}: {reason}" for name, found in window["latency"].items() for reason in found["wrong"]]
        notes += window["disturbance"].get("invalid_because", [])
        if max(window["back_s"].values()) > RECOVERY_S:
            notes.append(f"not as before after {RECOVERY_S:.0f} s: {window['stayed']}")
        for note in notes:
            print(f"round {number}, {window['kind']} {window['place']}: {note}")


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="length of a window")
    parser.add_argument("--rate", type=float, help="UDP queries per second, instead of the one that takes 30 %% of CPU 0")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to a file")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory(prefix="zonda-beside-") as temporary, processes(Path(temporary)) as server:
        bench = Bench(Path(temporary), server, arguments.seconds)
        bench.rate = arguments.rate or bench.find_rate()
        windows = [("quiet", ""), *((kind, place) for kind in arguments.only for place in ("server", "beside"))]
        before = bench.resources()
        for _ in range(arguments.rounds):
            bench.rounds.append([bench.measure(*window) for window in random.sample(windows, len(windows))])
        growth = {name: value - before[name] for name, value in bench.resources().items()}
    share = median(window["cpu"] for window in bench.windows("quiet", ""))
    print(f"{bench.rate:.0f} queries per second over UDP, {CONNECTION_RATE} each over TCP, TLS and QUIC: {share:.0%} of CPU 0 in quiet windows")
    show_latencies(bench, arguments.only)
    show_resources(bench, arguments.only)
    show_notes(bench)
    slab = f"{growth['slab'] / 1e3:+.0f} kB slab" if "slab" in growth else "slab not readable"
    print(f"in all windows: {growth['files']:+.0f} files, {growth['rss'] / 1e3:+.0f} kB resident, {slab}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rate": bench.rate, "seconds": arguments.seconds, "rounds": bench.rounds}))


if __name__ == "__main__":
    sys.exit(main())
