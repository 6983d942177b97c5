"""Samples CPU, pressure, processes and network counters twice per second; a stand-alone program.

`python sampler.py --labels FILE [--net NAME=PATH]...` prints a JSON header line, then one sample per line
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
import resource
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

NET_FILES = ("sockstat", "snmp", "netstat", "softnet_stat")
SOCKSTAT = {"TCP": ("inuse", "orphan", "tw", "alloc", "mem"), "UDP": ("inuse", "mem")}
COUNTERS = {
    "Udp": ("InDatagrams", "OutDatagrams", "InErrors", "RcvbufErrors", "SndbufErrors"),
    "Tcp": ("ActiveOpens", "PassiveOpens", "AttemptFails", "EstabResets", "CurrEstab", "RetransSegs"),
    "TcpExt": ("ListenOverflows", "ListenDrops", "TCPTimeWaitOverflow", "TCPAbortOnMemory", "TW"),
    "Ip": ("InReceives",),
    # Received packets, counted one by one even if the kernel passes several on as one (GRO, GSO); octets, with headers.
    "IpExt": ("InNoECTPkts", "InOctets"),
}
HZ = 2.0
LONGEST = 1 << 20  # octets of a file of /proc
PAGE = os.sysconf("SC_PAGE_SIZE")
STOP, EDGE = signal.SIGTERM, signal.SIGUSR1


def main() -> None:
    """Samples until SIGTERM."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--labels", type=Path, required=True)
    arguments.add_argument("--net", action="append", default=[], metavar="NAME=PATH")
    given = arguments.parse_args()
    paths = (item.partition("=") for item in given.net or ["host="])
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    sampler = Sampler(given.labels, {name: path for name, _, path in paths})
    signal.pthread_sigmask(signal.SIG_BLOCK, (STOP, EDGE))
    header = {"clock": clocks(), "hz": HZ, "tick": os.sysconf("SC_CLK_TCK"), "pid": os.getpid()}
    print(json.dumps(header), flush=True)
    due = time.monotonic()
    while True:
        print(json.dumps(sampler.sample(due)), flush=True)
        due += 1 / HZ
        while asked := signal.sigtimedwait((STOP, EDGE), max(0.0, due - time.monotonic())):
            if asked.si_signo == STOP:
                return
            print(json.dumps(sampler.sample(time.monotonic(), edge=True)), flush=True)


def clocks() -> dict[str, int]:
    """Both clocks at one time, within microseconds: of ten tries that in which nothing else ran."""
    tries = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(10)]
    before, realtime, after = min(tries, key=lambda found: found[2] - found[0])
    return {"monotonic_ns": (before + after) // 2, "realtime_ns": realtime}


class Sampler:
    """Reads everything that is sampled from files that stay open.

    Opening and parsing them anew took 1.5 ms per sample, and 2.4 ms where the server has 25 threads. Queries waited for
    that even at the 99th percentile, for servers with many threads longer than for others.
    """

    def __init__(self, labels: Path, nets: Mapping[str, str]) -> None:
        self.labels = labels
        self.nets = {name: NetCounters(path) for name, path in nets.items()}
        self.files = OpenFiles()

    def sample(self, due: float, *, edge: bool = False) -> dict[str, Any]:
        """One sample; `late` is its delay after the scheduled time, in nanoseconds."""
        now = time.monotonic_ns()
        stat = self.files.read("/proc/stat").split(b"\nintr", 1)[0].splitlines()
        taken = {
            "t": now,
            "late": now - int(due * 1e9),
            "cpu": [[int(n) for n in line.split()[1:9]] for line in stat[1:]],
            "psi": {name: self._pressure(name) for name in ("cpu", "io", "memory")},
            "processes": {label: self._processes(pid, edge=edge) for label, pid in labelled(self.labels).items()},
            "net": {name: counters.read() for name, counters in self.nets.items()},
        }
        self.files.close_unused()
        return {**taken, "edge": True} if edge else taken

    def _processes(self, root: int, *, edge: bool) -> dict[str, Any]:
        """Of `root` and its descendants: CPU time per thread, time runnable without a CPU, memory in kB, disk octets.

        Their names change while they start, so that they are read at the edges of windows only.
        """
        read, threads = self.files.read, dict[str, int]()
        names, pages, waited, disk, todo = dict[str, str](), 0, 0, 0, [str(root)]
        while todo:
            pid = todo.pop()
            pages += int((read(f"/proc/{pid}/statm").split() or (0, 0))[1])
            disk += disk_octets(read(f"/proc/{pid}/io"))
            for task in listed(f"/proc/{pid}/task"):
                folder = f"/proc/{pid}/task/{task}"
                todo += read(f"{folder}/children").decode().split()
                if run := read(f"{folder}/schedstat").split():
                    threads[task] = int(run[0])
                    waited += int(run[1])
                if edge:
                    names[task] = read(f"{folder}/comm").decode(errors="replace").strip()
        found = {"threads": threads, "rss_kb": pages * PAGE // 1024, "wait_ns": waited, "disk_octets": disk}
        return {**found, "names": names} if edge else found

    def _pressure(self, name: str) -> int:
        """The total PSI `some` stall time in microseconds; 0 on kernels without PSI."""
        some = self.files.read(f"/proc/pressure/{name}").split(b"\n", 1)[0]
        return int(some.rpartition(b"=")[2] or 0)


class OpenFiles:
    """Files of /proc by path, each opened once."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._used: set[str] = set()

    def read(self, path: str) -> bytes:
        """The content of a file; empty if there is none, or its process is gone."""
        try:
            if path not in self._open:
                self._open[path] = os.open(path, os.O_RDONLY)
            content = os.pread(self._open[path], LONGEST, 0)
        except OSError:
            return b""
        self._used.add(path)
        return content

    def close_unused(self) -> None:
        """Closes the files that were not read since the last call: those of processes that are gone."""
        for path in self._open.keys() - self._used:
            os.close(self._open.pop(path))
        self._used.clear()


class NetCounters:
    """The network counters of one namespace, whose files stay open."""

    def __init__(self, path: str = "") -> None:
        with inside(path) if path else contextlib.nullcontext():
            self.files = {name: os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY) for name in NET_FILES}
        self._known: dict[str, list[tuple[str, int]]] = {}

    def read(self) -> dict[str, int]:
        """Sockets by state, drops and errors."""
        found: dict[str, int] = {}
        for line in self._lines("sockstat"):
            protocol, _, rest = line.partition(": ")
            sockets = dict(zip(rest.split()[::2], rest.split()[1::2], strict=False))
            wanted = SOCKSTAT.get(protocol, ())
            found.update((f"{protocol}.{key}", int(sockets[key])) for key in wanted if key in sockets)
        for name in ("snmp", "netstat"):
            text = self._lines(name)
            for names, values in zip(text[::2], text[1::2], strict=False):
                if positions := self._columns(names):
                    fields = values.split()
                    found.update((key, int(fields[position])) for key, position in positions)
        found["softnet.dropped"] = sum(int(line.split()[1], 16) for line in self._lines("softnet_stat"))
        return found

    def _columns(self, names: str) -> list[tuple[str, int]]:
        """Key and column of each counter in a line of names, `Udp: InDatagrams ...`; its values are in the next.

        Protocols that were not used have no lines, so that the number of a line says nothing.
        """
        if names not in self._known:
            protocol, known = names.partition(":")[0], names.split()
            counted = COUNTERS.get(protocol, ())
            self._known[names] = [(f"{protocol}.{key}", known.index(key)) for key in counted if key in known]
        return self._known[names]

    def _lines(self, name: str) -> list[str]:
        return os.pread(self.files[name], LONGEST, 0).decode().splitlines()


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


def disk_octets(counts: bytes) -> int:
    """What a process has read from disks and written to files on them; 0 if this may not be read (proc(5))."""
    values = dict(line.split(b": ") for line in counts.splitlines())
    return int(values.get(b"read_bytes", 0)) + int(values.get(b"write_bytes", 0))


def listed(path: str) -> list[str]:
    """The names in a folder; empty if it does not exist."""
    try:
        return os.listdir(path)  # noqa: PTH208  a hot loop
    except OSError:
        return []


if __name__ == "__main__":
    main()
