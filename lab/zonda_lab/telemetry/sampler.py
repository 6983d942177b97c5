"""Samples CPU, pressure, processes and network counters ten times per second; a stand-alone program.

`python telemetry_sampler.py --labels FILE [--net NAME=PATH]...` prints a JSON header line, then one sample per line
with the cumulative counters of the kernel; `series.py` computes rates. FILE maps labels to process ids and
may change. SIGUSR1 asks for a sample at once, marked `edge`: the lab takes one before and one after each window, so
that counters cover exactly the window even if samples in between are late. Standard library only, because it also runs
on remote machines.
"""

import argparse
import contextlib
import ctypes
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NET_FILES = ("sockstat", "snmp", "netstat", "softnet_stat")
SOCKSTAT = {"TCP": ("inuse", "orphan", "tw", "alloc", "mem"), "UDP": ("inuse", "mem")}
COUNTERS = {
    "Udp": ("InDatagrams", "OutDatagrams", "InErrors", "RcvbufErrors", "SndbufErrors"),
    "Tcp": ("ActiveOpens", "PassiveOpens", "AttemptFails", "EstabResets", "CurrEstab", "RetransSegs"),
    "TcpExt": ("ListenOverflows", "ListenDrops", "TCPTimeWaitOverflow", "TCPAbortOnMemory", "TW"),
    # Received packets, counted one by one even if the kernel passes several on as one (GRO, GSO).
    "IpExt": ("InNoECTPkts",),
}
STOP, EDGE = signal.SIGTERM, signal.SIGUSR1


def main() -> None:
    """Samples until SIGTERM."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--labels", type=Path, required=True)
    arguments.add_argument("--net", action="append", default=[], metavar="NAME=PATH")
    arguments.add_argument("--hz", type=float, default=10.0)
    given = arguments.parse_args()
    paths = (item.partition("=") for item in given.net or ["host="])
    nets = {name: NetCounters(path) for name, _, path in paths}
    signal.pthread_sigmask(signal.SIG_BLOCK, (STOP, EDGE))
    clock = {"monotonic_ns": time.monotonic_ns(), "realtime_ns": time.time_ns()}
    header = {"clock": clock, "hz": given.hz, "tick": os.sysconf("SC_CLK_TCK"), "pid": os.getpid()}
    print(json.dumps(header), flush=True)
    due = time.monotonic()
    while True:
        print(json.dumps(sample(due, labelled(given.labels), nets)), flush=True)
        due += 1 / given.hz
        while asked := signal.sigtimedwait((STOP, EDGE), max(0.0, due - time.monotonic())):
            if asked.si_signo == STOP:
                return
            edge = sample(time.monotonic(), labelled(given.labels), nets)
            print(json.dumps({**edge, "edge": True}), flush=True)


def sample(due: float, labels: dict[str, int], nets: "dict[str, NetCounters]") -> dict[str, Any]:
    """One sample; `late` is its delay after the scheduled time, in nanoseconds."""
    now = time.monotonic_ns()
    return {
        "t": now,
        "late": now - int(due * 1e9),
        "cpu": [[int(n) for n in line.split()[1:9]] for line in lines("/proc/stat") if line[3:4].isdigit()],
        "psi": {name: pressure(name) for name in ("cpu", "io", "memory")},
        "processes": {label: process(pid) for label, pid in labels.items()},
        "net": {name: counters.read() for name, counters in nets.items()},
    }


class NetCounters:
    """The network counters of one namespace, whose files stay open."""

    def __init__(self, path: str = "") -> None:
        with inside(path) if path else contextlib.nullcontext():
            self.files = {name: Path(f"/proc/thread-self/net/{name}").open() for name in NET_FILES}  # noqa: SIM115

    def read(self) -> dict[str, int]:
        """Sockets by state, drops and errors."""
        found: dict[str, int] = {}
        for line in self._lines("sockstat"):
            protocol, _, rest = line.partition(": ")
            values = dict(zip(rest.split()[::2], rest.split()[1::2], strict=False))
            found.update({f"{protocol}.{key}": int(values[key]) for key in SOCKSTAT.get(protocol, ()) if key in values})
        for name in ("snmp", "netstat"):
            found.update(self._paired(self._lines(name)))
        found["softnet.dropped"] = sum(int(line.split()[1], 16) for line in self._lines("softnet_stat"))
        return found

    def _lines(self, name: str) -> list[str]:
        self.files[name].seek(0)
        return self.files[name].read().splitlines()

    def _paired(self, text: list[str]) -> Iterator[tuple[str, int]]:
        """Parses pairs of lines: `Udp: NAMES`, `Udp: VALUES`."""
        for names, values in zip(text[::2], text[1::2], strict=False):
            protocol = names.partition(":")[0]
            table = dict(zip(names.split()[1:], values.split()[1:], strict=False))
            yield from ((f"{protocol}.{key}", int(table[key])) for key in COUNTERS.get(protocol, ()) if key in table)


@contextlib.contextmanager
def inside(path: str) -> Iterator[None]:
    """Runs the block in another network namespace."""
    libc, clone_newnet = ctypes.CDLL(None, use_errno=True), 0x40000000
    with Path("/proc/thread-self/ns/net").open() as home, Path(path).open() as there:
        if libc.setns(there.fileno(), clone_newnet):
            raise OSError(ctypes.get_errno(), f"cannot enter {path}")
        try:
            yield
        finally:
            libc.setns(home.fileno(), clone_newnet)


def labelled(path: Path) -> dict[str, int]:
    """The processes to sample, by label."""
    try:
        labels: dict[str, int] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return labels


def process(root: int) -> dict[str, Any]:
    """Of `root` and its descendants: CPU time per thread, time runnable without a CPU, memory in kB, disk octets."""
    found: dict[str, int] = {}
    rss, waited, disk, todo = 0, 0, 0, [str(root)]
    while todo:
        pid = todo.pop()
        rss += resident_kb(pid)
        disk += disk_octets(pid)
        for task in listed(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{task}"
            todo += " ".join(lines(f"{folder}/children")).split()
            run, comm = lines(f"{folder}/schedstat"), lines(f"{folder}/comm")
            if run and comm:
                on_cpu, waiting, _ = map(int, run[0].split())
                found[f"{comm[0]}/{task}"] = on_cpu
                waited += waiting
    return {"threads": found, "rss_kb": rss, "wait_ns": waited, "disk_octets": disk}


def resident_kb(pid: str) -> int:
    """The resident memory of a process."""
    statm = lines(f"/proc/{pid}/statm")
    return int(statm[0].split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024 if statm else 0


def disk_octets(pid: str) -> int:
    """What a process has read from disks and written to files on them; 0 if this may not be read (proc(5))."""
    counts = dict(line.split(": ") for line in lines(f"/proc/{pid}/io"))
    return int(counts.get("read_bytes", 0)) + int(counts.get("write_bytes", 0))


def pressure(name: str) -> int:
    """The total PSI `some` stall time in microseconds; 0 on kernels without PSI."""
    some = lines(f"/proc/pressure/{name}")
    return int(some[0].rpartition("=")[2]) if some else 0


def listed(path: str) -> list[str]:
    """The names in a folder; empty if it does not exist."""
    try:
        return os.listdir(path)  # noqa: PTH208  a hot loop
    except OSError:
        return []


def lines(path: str) -> list[str]:
    """The lines of a file; empty if it does not exist."""
    try:
        with open(path) as file:  # noqa: PTH123  a hot loop
            return file.read().splitlines()
    except OSError:
        return []


if __name__ == "__main__":
    main()
