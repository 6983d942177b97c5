#!/usr/bin/env python3
"""Compare the CPU time that zonda-load and dnsperf use for an answered UDP query.

usage: load.py [--rounds N] [--seconds S] [--outstanding N] [--clients N] [--rate N] [--echo] [zonda-load option ...]

Both send the same queries to the same `zonda serve` (or `zonda-load echo`), in alternation, each in a closed loop with the same
number of outstanding queries and sockets, or at the same rate, at which only the server's times compare: zonda-load busy-waits.
The server runs on CPU 0, the tools on CPU 1. Reports the median user and system time per query, which other load disturbs less
than the rate, and the server's own. Needs dnsperf and `make release`. Further options go to zonda-load.
"""
import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RELEASE = Path(__file__).resolve().parent.parent / "target/release"
ADDRESS, PORT = "127.0.0.1", 5399


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--outstanding", type=int, default=200)
    options.add_argument("--clients", type=int, default=20)
    options.add_argument("--rate", type=int, default=0, help="queries per second, instead of closed loops")
    options.add_argument("--echo", action="store_true", help="query an echo server instead of zonda")
    asked, more = options.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        queries = write_input(Path(folder))
        zonda = [RELEASE / "zonda", "serve", "--config", f"{folder}/zonda.toml"]
        echo = [RELEASE / "zonda-load", "echo", "--listen", ADDRESS, "--port", str(PORT), "--answer-octets", "200"]
        serving = ["taskset", "-c", "0", *(echo if asked.echo else zonda)]
        server = subprocess.Popen(serving, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_answer()
            compare(asked, queries, more, server.pid)
        finally:
            server.kill()


def compare(asked: argparse.Namespace, queries: Path, more: list[str], server: int) -> None:
    seconds, clients = str(asked.seconds), str(asked.clients)
    closed = ["-q", str(asked.outstanding)], ["--outstanding", str(asked.outstanding)]
    paced = ["-q", "20000", "-Q", str(asked.rate)], ["--rate", str(asked.rate)]
    dnsperf, zonda_load = paced if asked.rate else closed
    tools = {
        "dnsperf": ["dnsperf", "-s", ADDRESS, "-p", str(PORT), "-d", queries, "-l", seconds,
                    "-c", clients, *dnsperf],
        "zonda-load": [RELEASE / "zonda-load", "query", "--server", ADDRESS, "--port", str(PORT), "--queries", queries,
                       "--seconds", seconds, "--connections", clients, *zonda_load, *more],
    }
    figures: dict[str, list[tuple[float, ...]]] = {tool: [] for tool in tools}
    for _ in range(asked.rounds):
        for tool, command in tools.items():
            figures[tool].append(measure(tool, command, server))
    print(f"{'tool':12}{'us CPU/answer':>15}{'user':>8}{'system':>8}{'server us':>11}{'answers/s':>12}   (medians)")
    for tool, rounds in figures.items():
        total, user, system, of_server, rate = (statistics.median(column) for column in zip(*rounds))
        print(f"{tool:12}{total:15.2f}{user:8.2f}{system:8.2f}{of_server:11.2f}{rate:12.0f}")
    ratios = [dnsperf[0] / zonda[0] for dnsperf, zonda in zip(figures["dnsperf"], figures["zonda-load"])]
    middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
    print(f"answers per CPU second, zonda-load to dnsperf: {middle:.2f} ({least:.2f} to {most:.2f})")


def measure(tool: str, command: list, server: int) -> tuple[float, ...]:
    """CPU, user and system time and the server's CPU time in microseconds per answer; answers per second."""
    before, began = server_seconds(server), time.monotonic()
    command = ["taskset", "-c", "1", *command]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = run.stdout.read()
    _, _, usage = os.wait4(run.pid, 0)
    took, served = time.monotonic() - began, server_seconds(server) - before
    answers = answered(tool, output)
    times_s = usage.ru_utime + usage.ru_stime, usage.ru_utime, usage.ru_stime, served
    return *(time_s * 1e6 / answers for time_s in times_s), answers / took


def answered(tool: str, output: str) -> int:
    if tool == "dnsperf":
        return int(re.search(r"Queries completed:\s+(\d+)", output)[1])
    figures = json.loads([line for line in output.splitlines() if '"stats_sum"' in line][-1])
    if figures["zonda"]["wrong"] or figures["timeouts"] > figures["queries"] / 1000:
        sys.exit(f"not a run to compare: {figures['zonda']['invalid_because']}, {figures['timeouts']} timeouts")
    return figures["responses"]


def server_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_input(folder: Path) -> Path:
    """A root zone of 500 delegations with glue, a configuration for it, and queries for names below them."""
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    labels = ["".join(chance.choices(letters, k=chance.randint(2, 8))) + str(at) for at in range(500)]
    zone = ["$TTL 86400", ". SOA a.root. host.root. 1 1800 900 604800 86400", ". NS a.root.", "a.root. A 198.41.0.4"]
    for at, label in enumerate(labels):
        for server in range(4):
            zone += [f"{label}. NS ns{server}.{label}.", f"ns{server}.{label}. A 10.{at >> 8}.{at & 255}.{server}"]
    (folder / "root.zone").write_text("\n".join(zone) + "\n")
    (folder / "zonda.toml").write_text(
        f'[server]\nlisten = ["{ADDRESS}:{PORT}"]\nworkers = 1\nstate-dir = "{folder}"\n'
        '[[zone]]\nname = "."\nfile = "root.zone"\n'
    )
    queries = folder / "queries"
    queries.write_text("".join(f"www{chance.randint(0, 9999)}.{chance.choice(labels)}. A\n" for _ in range(10_000)))
    return queries


def wait_for_answer() -> None:
    query = bytes.fromhex("000000000001000000000000") + b"\0\0\6\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.2)
        for _ in range(50):
            try:
                asking.sendto(query, (ADDRESS, PORT))
                asking.recv(4096)
                return
            except OSError:
                time.sleep(0.1)
    sys.exit("the server does not answer")


if __name__ == "__main__":
    main()
