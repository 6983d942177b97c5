#!/usr/bin/env python3
"""One secondary with very many tiny zones: arrival, memory, connections, refresh, NOTIFY and stop, as a table.

usage: bench/scale.py [ZONES=1000000] [--nsd PROGRAM] [--own-records] [--probe-rate N] [--refresh-s N] [--keep FOLDER]

`zonda-load xfr serve` is the primary, or NSD; `zonda` starts without any zone data and transfers all zones, which have a SOA and an NS
record each. Steps: all zones are transferred; idle; every zone is refreshed once, unchanged; every zone is notified of a new serial, and
transferred again (not from NSD); SIGTERM; a start with what is stored, without a primary. Each line: seconds, CPU seconds of the
secondary, microseconds of CPU time per zone, and how much of it each thread used (the threads that answer the probe are in it). Memory is
the proportional set size; "over empty" subtracts that of a server without zones.
Connections are those that the primary accepted. The exit status is 1 if a zone is missing at the end.

All zones have the same records, and so share one leaf in the secondary's memory; with `--own-records` each has another MINIMUM, and a
file of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from server_process import LOAD, ServerProcess, load_result, serving, started

PORT, PRIMARY_PORT = map(int, os.environ.get("PORTS", "5397 5398").split())  # of the secondary and its primary
ZONE = "$TTL 3600\n@ SOA ns.example. host.example. {serial} 86400 5 604800 {minimum}\n@ NS ns.example.\n"


@dataclass
class Step:
    """What one step cost the secondary."""

    name: str
    seconds: float
    cpu_s: float
    threads: Counter[str]
    pss: float
    peak: float
    descriptors: int
    note: str = ""


class Secondary(ServerProcess):
    """A secondary that is measured step by step."""

    @contextmanager
    def step(self, steps: list[Step], name: str) -> Iterator[list[str]]:
        """Measures what happens inside; the list takes a note."""
        began, before, note = time.monotonic(), self.thread_times(), []
        yield note
        seconds = time.monotonic() - began
        used = self.thread_times()
        used.subtract(before)
        descriptors = len(list((self.proc / "fd").iterdir()))
        step = Step(name, seconds, used.total(), used, self.pss(), self.peak(), descriptors, " ".join(note))
        steps.append(step)


@contextmanager
def primary(folder: Path, serial: int) -> Iterator[dict[str, int]]:
    """A primary whose zones have this serial; its counters are in the dictionary at the end."""
    write_zone_files(folder, serial)
    command = [LOAD, "xfr", "serve", "--listen", "127.0.0.1", "--port", str(PRIMARY_PORT), "--zones", str(folder / "primary.list")]
    counters: dict[str, int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = map(json.loads, process.stdout or ())
        try:
            if not any(line.get("msg_type") == "ready" for line in lines):
                raise SystemExit("the primary does not start")
            yield counters
        finally:
            process.send_signal(signal.SIGTERM)
            counters.update(next((line["zonda"] for line in lines if line["type"] == "stats_sum"), {}))


@contextmanager
def nsd_primary(folder: Path, program: Path) -> Iterator[dict[str, int]]:
    """NSD as a primary of the same zones; it counts nothing. All zones share one file."""
    write_zone_files(folder, 1)
    names = (folder / "names").read_text().split()
    (folder / "nsd.zones").write_text("# NSD zone list\n# name pattern\n" + "".join(f"add {name} tiny\n" for name in names))
    (folder / "last").write_text(names[-1] + "\n")
    config = folder / "nsd.conf"
    config.write_text(
        f'server:\n  ip-address: 127.0.0.1@{PRIMARY_PORT}\n  username: ""\n  zonesdir: "{folder}"\n  pidfile: ""\n'
        f'  zonelistfile: "{folder}/nsd.zones"\n  xfrdfile: "{folder}/xfrd.state"\n  tcp-count: 1000\n  cookie-secret-file: ""\n'
        'remote-control:\n  control-enable: no\npattern:\n  name: tiny\n  zonefile: "tiny.zone"\n  provide-xfr: 127.0.0.1 NOKEY\n'
    )
    with started([str(program), "-d", "-c", str(config)], folder / "nsd.log") as process:
        began = time.monotonic()
        time.sleep(1)
        if process.poll() is not None:
            raise SystemExit(f"NSD does not start: {(folder / 'nsd.log').read_text()[-600:]}")
        wait_for(PRIMARY_PORT, folder / "last", 1, 20)
        print(f"NSD serves all zones after at most {time.monotonic() - began:.1f} s")
        yield {}


@contextmanager
def secondary(folder: Path, refresh_s: int, state: Path) -> Iterator[Secondary]:
    """A secondary of these zones with this state folder."""
    config = (
        f'zone-list = ["secondary.list"]\n\n[server]\nlisten = ["127.0.0.1:{PORT}"]\nstate-dir = "{state}"\n\n'
        f'[template.default]\nprimaries = ["127.0.0.1:{PRIMARY_PORT}"]\nmax-refresh-s = {refresh_s}\n'
    )
    with serving(folder, config, cpu=None) as server:
        yield Secondary(server.process)


def wait_for(port: int, names: Path, serial: int, rate: int) -> float:
    """Waits until these zones have this serial at a server; returns the seconds that this took."""
    target = ["probe", "--server", "127.0.0.1", "--port", str(port), "--zones", str(names), "--serial", str(serial)]
    return load_result([*target, "--rate", str(rate), "--seconds", "1200", "--interval-us", "20000"])["zonda"]["arrival"]["max"] / 1e9


def write_lists(folder: Path, zones: int, own_records: bool) -> None:
    """The lists of zones for the three programs."""
    names = [f"z{number}.test" for number in range(zones)]
    files = [zone_file(folder, number if own_records else 0) for number in range(zones)]
    (folder / "names").write_text("\n".join(names) + "\n")
    (folder / "primary.list").write_text("".join(f"{name} {file}\n" for name, file in zip(names, files, strict=True)))
    (folder / "secondary.list").write_text("\n".join(names) + "\n")
    (folder / "files").write_text(str(zones if own_records else 1))


def zone_file(folder: Path, number: int) -> Path:
    """A file of the primary."""
    return folder / ("tiny.zone" if number == 0 else f"tiny{number}.zone")


def write_zone_files(folder: Path, serial: int) -> None:
    """The files of the primary: zones with this serial, each with another MINIMUM."""
    for number in range(int((folder / "files").read_text())):
        zone_file(folder, number).write_text(ZONE.format(serial=serial, minimum=300 + number))


def empty_memory(folder: Path, arguments: argparse.Namespace) -> float:
    """The memory of a server with one zone."""
    write_lists(folder, 1, own_records=False)
    with primary(folder, 1), secondary(folder, arguments.refresh_s, state_folder(folder)) as server:
        wait_for(PORT, folder / "names", 1, arguments.probe_rate)
        time.sleep(2)
        return server.pss()


def state_folder(folder: Path) -> Path:
    """A new state folder."""
    return Path(tempfile.mkdtemp(prefix="state-", dir=folder))


def notify(folder: Path, arguments: argparse.Namespace) -> str:
    """Announces a change of every zone, without a serial."""
    rate = str(arguments.notify_rate)
    target = ["--server", "127.0.0.1", "--port", str(PORT), "--zones", str(folder / "names")]
    result = load_result(["notify", *target, "--rate", rate], may_be_void=True)
    void = "".join(f", void: {reason}" for reason in result["zonda"]["invalid_because"])
    return f"{result['responses']} of {arguments.zones} NOTIFYs answered{void}"


def measure(folder: Path, arguments: argparse.Namespace) -> list[Step]:
    """All steps."""
    steps: list[Step] = []
    write_lists(folder, arguments.zones, arguments.own_records)
    state, serial = state_folder(folder), 1

    def all_answered() -> str:
        return f"last answer {wait_for(PORT, folder / 'names', serial, arguments.probe_rate):.2f} s later"

    with ExitStack() as running, ExitStack() as first_running:
        first = first_running.enter_context(nsd_primary(folder, arguments.nsd) if arguments.nsd else primary(folder, serial))
        server = running.enter_context(secondary(folder, arguments.refresh_s, state))
        with server.step(steps, "transfer all") as note:
            note.append(all_answered())
        transferred = time.monotonic()
        with server.step(steps, "idle, 3 s"):
            time.sleep(3)
        with server.step(steps, "refresh all"):
            time.sleep(max(0.0, transferred + arguments.refresh_s - time.monotonic()))
        first_running.close()
        if not arguments.nsd:
            steps[0].note += f", {first['connections']} connections"
            steps[2].note += f"{first['soa_answers']} SOA queries, {first['zones']} transfers in all"
            serial = 2
            with primary(folder, serial) as second, server.step(steps, "new serial") as note:
                note += [f"{notify(folder, arguments)},", all_answered()]
            steps[3].note += f", {second['soa_answers']} SOA queries, {second['zones']} transfers, {second['connections']} connections"
        began, cpu_s = time.monotonic(), server.cpu_s()
        seconds = server.stop()
        print(f"SIGTERM: ended after {seconds:.2f} s (sent {began:.0f}, {cpu_s:.1f} s of CPU time in all)")
    # The step begins once the process is there; its CPU time includes what came before.
    with secondary(folder, arguments.refresh_s, state) as server, server.step(steps, "start again") as note:
        note.append(all_answered())
    return steps


def show(steps: list[Step], zones: int, empty: float) -> None:
    """The table."""
    print(f"{zones} zones; a server with one zone has {empty / 1e6:.1f} MB")
    print(f"{'step':14}{'seconds':>9}{'CPU s':>8}{'us/zone':>9}{'PSS MB':>8}{'octets/zone':>13}{'peak MB':>9}{'files':>7}  threads; notes")
    for step in steps:
        each, octets = step.cpu_s * 1e6 / zones, (step.pss - empty) / zones
        threads = " ".join(f"{name} {seconds:.2f}" for name, seconds in step.threads.most_common(5) if seconds >= 0.005)
        print(
            f"{step.name:14}{step.seconds:9.2f}{step.cpu_s:8.2f}{each:9.2f}{step.pss / 1e6:8.1f}{octets:13.0f}{step.peak / 1e6:9.1f}"
            f"{step.descriptors:7}  {threads}; {step.note}"
        )


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zones", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--nsd", type=Path, help="the program nsd, to be the primary")
    parser.add_argument("--own-records", action="store_true", help="give each zone another MINIMUM and a file: about 4 kB of disk for each")
    parser.add_argument("--probe-rate", type=int, default=20_000, help="queries per second that look for the zones")
    parser.add_argument("--notify-rate", type=int, default=20_000, help="NOTIFYs per second")
    parser.add_argument("--refresh-s", type=int, default=120, help="the refresh interval of every zone")
    parser.add_argument("--keep", type=Path, help="a folder for the configuration and the log, which stay there")
    arguments = parser.parse_args()
    if arguments.nsd and arguments.own_records:
        parser.error("--own-records is not for --nsd, whose zones share one file")
    with tempfile.TemporaryDirectory(prefix="zonda-scale-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        empty = empty_memory(folder, arguments)
        show(measure(folder, arguments), arguments.zones, empty)


if __name__ == "__main__":
    sys.exit(main())
