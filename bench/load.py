#!/usr/bin/env python3
"""Compare the CPU time that zonda-load and dnsperf use for an answered UDP query.

usage: load.py [--rounds N] [--seconds S] [--outstanding N] [--clients N] [--rate N] [--echo] [zonda-load option ...]

Both send the same queries to the same `zonda serve` (or `zonda-load echo`), in alternation, each in a closed loop with the same
number of outstanding queries and sockets, or at the same rate, at which only the server's times compare: zonda-load busy-waits.
The server runs on CPU 0, the tools on CPU 1. Reports the median user and system time per query, which other load disturbs less
than the rate, and the server's own. Needs dnsperf and `make release`. Further options go to zonda-load.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from queries import SOA, question, wait_until_answered
from server_process import LOAD, ServerProcess, pinned, result_in, serving, started
from zones import write_root_zone

ADDRESS, PORT = "127.0.0.1", 5399
CONFIG = '[server]\nlisten = ["{address}:{port}"]\nworkers = 1\nstate-dir = "{folder}"\n[[zone]]\nname = "."\nfile = "root.zone"\n'
ECHO = [LOAD, "echo", "--listen", ADDRESS, "--port", str(PORT), "--answer-octets", "200"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--outstanding", type=int, default=200)
    options.add_argument("--clients", type=int, default=20)
    options.add_argument("--rate", type=int, default=0, help="queries per second, instead of closed loops")
    options.add_argument("--echo", action="store_true", help="query an echo server instead of zonda")
    asked, more = options.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as running:
        folder = Path(temporary)
        write_root_zone(folder)
        if asked.echo:
            server = ServerProcess(running.enter_context(started(ECHO, folder / "log", cpu=0)))
        else:
            server = running.enter_context(serving(folder, CONFIG.format(address=ADDRESS, port=PORT, folder=folder)))
        wait_until_answered(PORT, question(".", SOA), seconds=10)
        compare(asked, f"{folder}/queries", more, server)


def compare(asked: argparse.Namespace, queries: str, more: list[str], server: ServerProcess) -> None:
    closed = ["-q", str(asked.outstanding)], ["--outstanding", str(asked.outstanding)]
    paced = ["-q", "20000", "-Q", str(asked.rate)], ["--rate", str(asked.rate)]
    dnsperf, zonda_load = paced if asked.rate else closed
    query = f"query --server {ADDRESS} --port {PORT} --seconds {asked.seconds} --connections {asked.clients} --queries"
    tools = {
        "dnsperf": [*f"dnsperf -s {ADDRESS} -p {PORT} -l {asked.seconds} -c {asked.clients} -d".split(), queries, *dnsperf],
        "zonda-load": [LOAD, *query.split(), queries, *zonda_load, *more],
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


def measure(tool: str, command: list[str], server: ServerProcess) -> tuple[float, ...]:
    """CPU, user and system time and the server's CPU time in microseconds per answer; answers per second."""
    before, began = server.cpu_s(), time.monotonic()
    run = subprocess.Popen(pinned(command, 1), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = run.stdout.read()
    _, _, usage = os.wait4(run.pid, 0)
    took, served = time.monotonic() - began, server.cpu_s() - before
    answers = answered(tool, output)
    times_s = usage.ru_utime + usage.ru_stime, usage.ru_utime, usage.ru_stime, served
    return *(time_s * 1e6 / answers for time_s in times_s), answers / took


def answered(tool: str, output: str) -> int:
    if tool == "dnsperf":
        return int(re.search(r"Queries completed:\s+(\d+)", output)[1])
    figures = result_in(output)
    if figures["zonda"]["wrong"] or figures["timeouts"] > figures["queries"] / 1000:
        sys.exit(f"not a run to compare: {figures['zonda']['invalid_because']}, {figures['timeouts']} timeouts")
    return figures["responses"]


if __name__ == "__main__":
    main()
