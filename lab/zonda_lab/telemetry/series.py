"""Telemetry as time series: rates from cumulative counters, and which resource saturated first."""

import bisect
import gzip
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
Floats = NDArray[np.float64]
PACKETS = "IpExt.InNoECTPkts"  # received packets, each counted even if several are passed on as one
OCTETS, BUFFERS = "IpExt.InOctets", "Ip.InReceives"  # of what is passed on as one: octets, with one header; how many
FULL = 0.95  # share of a core at which a thread or CPU counts as saturated


@dataclass(frozen=True)
class Telemetry:
    """The samples of one start."""

    header: dict[str, Any]
    samples: list[dict[str, Any]]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads the sampler's output, compressed or not; ignores an incomplete last line."""
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        whole = text[: text.rfind("\n") + 1].splitlines()
        parsed = [json.loads(line) for line in whole]
        return cls(parsed[0] if parsed else {}, parsed[1:])

    def shifted(self, seconds: float) -> Self:
        """The same telemetry with `seconds` added to its times."""
        if not seconds:
            return self
        return replace(self, samples=[{**sample, "t": sample["t"] + int(seconds * 1e9)} for sample in self.samples])

    def between(self, began_s: float, ended_s: float) -> Self:
        """The samples in an interval of the monotonic clock."""
        return replace(self, samples=[s for s in self.samples if began_s <= s["t"] / 1e9 <= ended_s])

    def around(self, began_s: float, ended_s: float) -> Self:
        """From the last sample before an interval of the monotonic clock to the first one after it."""
        first = max(bisect.bisect_right(self.times, began_s) - 1, 0)
        return replace(self, samples=self.samples[first : bisect.bisect_left(self.times, ended_s) + 1])

    @property
    def times(self) -> Floats:
        """The sample times in seconds of the monotonic clock."""
        return np.array([sample["t"] / 1e9 for sample in self.samples])

    @property
    def seconds(self) -> float:
        """The time between the first and the last sample."""
        return float(self.times[-1] - self.times[0]) if self.samples else 0.0

    def gauge(self, read: Callable[[dict[str, Any]], float]) -> Floats:
        """A value at each sample."""
        return np.array([read(sample) for sample in self.samples], dtype=float)

    def rate(self, read: Callable[[dict[str, Any]], float]) -> Floats:
        """The rate of a cumulative counter between consecutive samples."""
        if len(self.samples) < 2:
            return np.zeros(0)
        return np.diff(self.gauge(read)) / np.diff(self.times)

    def grown(self, read: Callable[[dict[str, Any]], float]) -> float:
        """The total increase of a counter."""
        return float(read(self.samples[-1]) - read(self.samples[0])) if self.samples else 0.0

    def _ticks(self) -> dict[str, float]:
        """The ticks that all CPUs spent in each state."""
        ticks = sum(np.array(self.samples[-1]["cpu"]) - np.array(self.samples[0]["cpu"]))
        return dict(zip(CPU_FIELDS, ticks.tolist(), strict=True))

    def cpu_share(self, field: str) -> float:
        """The share of all CPU time spent in that state."""
        ticks = self._ticks() if self.samples else {}
        return ticks[field] / sum(ticks.values()) if any(ticks.values()) else 0.0

    def busy_cores(self) -> float:
        """The mean number of CPUs used by programs, without interrupts and softirqs, or an upper bound of it.

        Kernels that charge whole ticks to what runs at a tick see work of a fixed period always or never. Idle time
        they measure, so that no program can have used more than the rest.
        """
        if len(self.samples) < 2:
            return 0.0
        cpus = len(self.samples[0]["cpu"])
        away = sum(self.cpu_share(field) for field in ("idle", "iowait", "steal", "irq", "softirq"))
        ticks = self._ticks()
        idle = sum(ticks[field] for field in ("idle", "iowait", "steal"))
        return float(min((1 - away) * cpus, cpus - idle / self.header["tick"] / self.seconds))

    def busy_s(self, cpus: Sequence[int]) -> float:
        """Seconds in which these CPUs were not idle, with interrupts and softirqs; idle time is measured exactly."""
        at = [CPU_FIELDS.index(field) for field in ("idle", "iowait", "steal")]
        idle = self.grown(lambda sample: sum(sample["cpu"][cpu][i] for cpu in cpus for i in at))
        return float(self.seconds * len(cpus) - idle / self.header["tick"])

    def tick_error_cores(self) -> float:
        """By how much `busy_cores` may be wrong: at either end a tick of each CPU. Much in windows of milliseconds."""
        if len(self.samples) < 2:
            return 0.0
        return float(2 * len(self.samples[0]["cpu"]) / self.header["tick"] / self.seconds)

    def used_cores(self, label: str) -> Floats:
        """CPUs used by a labelled process tree, between consecutive samples."""
        grown = [
            sum(
                max(0, run - threads_of(before, label).get(thread, 0))
                for thread, run in threads_of(after, label).items()
            )
            for before, after in itertools.pairwise(self.samples)
        ]
        return np.array(grown, dtype=float) / 1e9 / np.diff(self.times)

    def labelled_cores(self) -> float:
        """The mean number of CPUs used by all labelled process trees."""
        labels = {label for sample in self.samples for label in sample["processes"]}
        return sum(map(self.mean_cores, labels))

    def mean_cores(self, label: str) -> float:
        """The mean number of CPUs used by a labelled process tree."""
        return float(self.used_cores(label) @ np.diff(self.times)) / self.seconds if self.seconds else 0.0

    def waited_s(self, label: str) -> float:
        """Seconds in which threads of a labelled process tree were runnable but had no CPU."""
        waits = [s["processes"][label].get("wait_ns", 0) for s in self.samples if label in s["processes"]]
        return max(0, max(waits) - waits[0]) / 1e9 if waits else 0.0

    def disk_octets(self, label: str) -> int:
        """What a labelled process tree has read from and written to disks."""
        found = [s["processes"].get(label, {}).get("disk_octets", 0) for s in self.samples]
        return max(found) - found[0] if found else 0

    def thread_shares(self, label: str) -> dict[str, Floats]:
        """The share of a core used by each thread of a process tree, by thread id."""
        threads = sorted({thread for sample in self.samples for thread in threads_of(sample, label)})
        run_ns = {thread: [threads_of(sample, label).get(thread, 0) for sample in self.samples] for thread in threads}
        return {thread: np.diff(found) / 1e9 / np.diff(self.times) for thread, found in run_ns.items()}

    def thread_name(self, label: str, thread: str) -> str:
        """The name of a thread when a window last began or ended; its id if it did not live then."""
        names = [sample["processes"].get(label, {}).get("names", {}) for sample in self.samples]
        return str(next((found[thread] for found in reversed(names) if thread in found), thread))


def with_clients(server: Telemetry, clients: Sequence[Telemetry]) -> Telemetry:
    """The server's telemetry with the summed network counters of remote clients as `client`."""
    if not clients:
        return server
    times = [[sample["t"] for sample in client.samples] for client in clients]
    samples = []
    for sample in server.samples:
        total: Counter[str] = Counter()
        for client, known in zip(clients, times, strict=True):
            if i := bisect.bisect(known, sample["t"]):
                total.update(client.samples[i - 1]["net"]["client"])
        samples.append({**sample, "net": {**sample["net"], "client": dict(total)}})
    return replace(server, samples=samples)


def threads_of(sample: dict[str, Any], label: str) -> dict[str, int]:
    """The run time of each thread of a process tree, in nanoseconds."""
    threads: dict[str, int] = sample["processes"].get(label, {}).get("threads", {})
    return threads


def net(end: str, counter: str) -> Callable[[dict[str, Any]], float]:
    """A reader for one network counter of the server or the client."""
    return lambda sample: float(sample["net"].get(end, {}).get(counter, 0))


def saturated(telemetry: Telemetry) -> list[tuple[float, str]]:
    """Resources that saturated, with the time since the first sample, in order of time."""
    if len(telemetry.samples) < 2:
        return []
    times = telemetry.times[1:] - telemetry.times[0]
    found: list[tuple[float, str]] = []

    def watch(values: Floats, limit: float, what: str) -> None:
        over = np.flatnonzero(values >= limit)
        if len(over):
            found.append((float(times[over[0]]), what))

    for label in ("server", "load"):
        for thread, shares in telemetry.thread_shares(label).items():
            watch(shares, FULL, f"{label}: thread {telemetry.thread_name(label, thread)} uses its whole core")
    at, tick = CPU_FIELDS.index("softirq"), telemetry.header["tick"]
    softirq = np.array([[cpu[at] for cpu in sample["cpu"]] for sample in telemetry.samples])
    for cpu, ticks in enumerate(softirq.T):
        watch(np.diff(ticks) / tick / np.diff(telemetry.times), FULL, f"CPU {cpu} does nothing but softirq")
    for end, counter, what in (
        ("server", "Udp.RcvbufErrors", "the server's socket buffers overflow"),
        ("client", "Udp.RcvbufErrors", "the generator's socket buffers overflow"),
        ("server", "TcpExt.ListenOverflows", "the server's listen queue overflows"),
        ("server", "softnet.dropped", "the kernel's receive queues overflow"),
    ):
        watch(telemetry.rate(net(end, counter)), 1.0, what)
    return sorted(found)
