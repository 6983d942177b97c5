#!/usr/bin/env python3
"""DNS over QUIC beside Knot DNS: CPU time per query, per handshake, and memory of idle connections.

usage: bench/quic.py [--rounds N] [--seconds S] [--idle N]

open       queries on 20 open connections, ten outstanding on each, in a closed loop
single     the same, one outstanding on each
full       a connection with a full handshake for each query
resumed    the same with resumed sessions; `accepted` is the share of handshakes that the server resumed
idle       memory of idle connections: growth of the proportional set size

Servers have one QUIC thread on CPU 0; `zonda-load quic` runs on CPU 1. Knot is measured if `knotd` is on PATH and was built with QUIC.
CPU time is user and system time of the server. Rounds of the servers alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from queries import SOA, question, wait_until_answered
from server_process import LOAD, ZONDA, ServerProcess, load_result, pinned, started
from zones import write_root_zone

PORT, QUIC_PORT = 5394, 5395
KINDS = {
    "open": ["--connections", "20", "--outstanding", "200"],
    "single": ["--connections", "20", "--outstanding", "20"],
    "full": ["--connections", "20", "--outstanding", "20", "--queries-per-connection", "1"],
    "resumed": ["--connections", "20", "--outstanding", "20", "--queries-per-connection", "1", "--resume"],
}


def zonda(folder: Path) -> list[str]:
    """Its command."""
    (folder / "zonda.toml").write_text(
        f'[server]\nlisten = ["127.0.0.1:{PORT}"]\nlisten-quic = ["127.0.0.1:{QUIC_PORT}"]\ntls-self-signed = true\nworkers = 1\n'
        f'tcp-workers = 1\ntls-handshake-percent = 100000\nquic-connections = 20000\nquic-connections-per-client = 20000\n'
        f'quic-idle-timeout-ms = 120000\nstate-dir = "{folder}/state"\n\n[[zone]]\nname = "."\nfile = "{folder}/root.zone"\n'
    )
    return [ZONDA, "serve", "--config", f"{folder}/zonda.toml"]


def knot(folder: Path) -> list[str] | None:
    """Its command, if there is one with QUIC."""
    program = shutil.which("knotd")
    if not program:
        return None
    version = subprocess.run([program, "-VV"], capture_output=True, text=True, check=True).stdout
    if not re.search(r"DoQ support:\s+(?!no)\S", version):
        return None
    (folder / "knot").mkdir(exist_ok=True)
    (folder / "knot.conf").write_text(
        f'server:\n  listen: 127.0.0.1@{PORT}\n  listen-quic: 127.0.0.1@{QUIC_PORT}\n  rundir: "{folder}"\n  udp-workers: 1\n'
        f"  tcp-workers: 1\n  background-workers: 1\n  quic-max-clients: 20000\n  quic-idle-close-timeout: 120\n  quic-outbuf-max-size: 200M\n"
        f'database:\n  storage: "{folder}/knot"\nzone:\n  - domain: .\n    file: "{folder}/root.zone"\n    zonefile-load: whole\n'
        "    journal-content: none\n"
    )
    return [program, "-c", f"{folder}/knot.conf"]


@contextmanager
def serving(command: list[str], log: Path) -> Iterator[ServerProcess]:
    """A server on CPU 0 that answers."""
    with started(command, log, cpu=0) as process:
        wait_until_answered(PORT, question(".", SOA), seconds=20)
        yield ServerProcess(process)


def clients(folder: Path, *options: str) -> list[str]:
    """The arguments of a run of `zonda-load quic`."""
    target = ["--server", "127.0.0.1", "--port", str(QUIC_PORT), "--queries", f"{folder}/queries", "--warm-up", "0"]
    return ["quic", *target, *options]


def idle_octets(server: ServerProcess, folder: Path, count: int) -> float:
    """Memory of an idle connection, while `zonda-load` holds them."""
    before = server.pss()
    held = ["--connections", str(count), "--rate", "500", "--outstanding", "0", "--seconds", "4"]
    with subprocess.Popen(pinned([LOAD, *clients(folder, *held)], 1), stdout=subprocess.PIPE, text=True) as holding:
        opened = next(json.loads(line)["zonda"]["open"] for line in holding.stdout if '"msg_type":"open"' in line.replace(" ", ""))
        time.sleep(2)
        octets = (server.pss() - before) / opened
        holding.stdout.read()
    if opened < count:
        print(f"only {opened} of {count} connections were opened")
    return octets


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--idle", type=int, default=4_000)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {1})
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory(prefix="zonda-quic-") as temporary:
        folder = Path(temporary)
        write_root_zone(folder)
        servers = {name: command for name, command in (("zonda", zonda(folder)), ("knot", knot(folder))) if command}
        figures: dict[tuple[str, str], list[float]] = {}
        resumed: dict[str, list[float]] = {}
        for _ in range(arguments.rounds):
            for name, command in servers.items():
                with serving(command, folder / f"{name}.log") as server:
                    for kind, options in KINDS.items():
                        before = server.cpu_s()
                        result = load_result(clients(folder, *options, "--seconds", str(arguments.seconds)), cpu=1)
                        cost = (server.cpu_s() - before) * 1e6 / result["responses"]
                        figures.setdefault((kind, name), []).append(cost)
                        if "--resume" in options:
                            connections = result["conn_info"]
                            share = connections["handshakes_resumed"] / connections["handshakes"]
                            resumed.setdefault(name, []).append(share)
        print(f"CPU us per query, medians of {arguments.rounds}; octets per idle connection, one run of {arguments.idle}")
        print(f"{'':10}" + "".join(f"{name:>10}" for name in servers))
        for kind in KINDS:
            print(f"{kind:10}" + "".join(f"{statistics.median(figures[kind, name]):10.1f}" for name in servers))
        shares = "".join(f"{100 * statistics.median(resumed[name]):9.0f}%" for name in servers)
        print(f"{'accepted':10}{shares}")
        idle = ""
        for name, command in servers.items():
            with serving(command, folder / f"{name}.log") as server:
                idle += f"{idle_octets(server, folder, arguments.idle):10.0f}"
        print(f"{'idle':10}{idle}")


if __name__ == "__main__":
    sys.exit(main())
