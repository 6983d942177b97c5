"""CPU time and memory of a process tree, from /proc. Standard library only, because it also runs on remote machines.

`python3 procfs.py PID` prints both for all descendants of PID, as JSON.
"""

import contextlib
import dataclasses
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CPUCLOCK_SCHED = 2  # with a process id it is the clock of that process in nanoseconds (clock_getcpuclockid(3))


@dataclass(frozen=True)
class Memory:
    """Memory of a process tree, in kB."""

    rss_kb: int
    pss_kb: int
    peak_kb: int


def main() -> None:
    """Prints the usage of all descendants of a process."""
    pids = descendants(int(sys.argv[1]))
    print(json.dumps({"cpu_s": cpu_s(pids), "memory": dataclasses.asdict(memory_of(pids))}))


def cpu_s(pids: Sequence[int]) -> float:
    """CPU time of those processes, with threads that have ended and children that have been reaped."""
    return sum(own_cpu_s(pid) + _reaped_cpu_s(pid) for pid in pids)


def own_cpu_s(pid: int) -> float:
    """CPU time of a process with all threads it ever had, without its children; 0 if it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def thread_times(pid: int) -> Counter[str]:
    """CPU time of the living threads of a process in nanoseconds, by name."""
    times: Counter[str] = Counter()
    for task in threads([pid]):
        with contextlib.suppress(OSError):
            times[(task / "comm").read_text().rstrip("\n")] += int((task / "schedstat").read_text().split()[0])
    return times


def memory_of(pids: Sequence[int]) -> Memory:
    """The total memory of those processes."""
    rollups = [_fields(Path(f"/proc/{pid}/smaps_rollup")) for pid in pids]
    statuses = [_fields(Path(f"/proc/{pid}/status")) for pid in pids]
    return Memory(
        rss_kb=sum(rollup.get("Rss", 0) for rollup in rollups),
        pss_kb=sum(rollup.get("Pss", 0) for rollup in rollups),
        peak_kb=sum(status.get("VmHWM", 0) for status in statuses),
    )


def descendants(pid: int) -> list[int]:
    """All descendants of `pid`, nearest first."""
    found: list[int] = []
    todo = [pid]
    while todo:
        parent = todo.pop(0)
        for task in threads([parent]):
            with contextlib.suppress(OSError):
                todo += map(int, (task / "children").read_text().split())
        found.append(parent)
    return found[1:]


def threads(pids: Sequence[int]) -> list[Path]:
    """The /proc folders of all threads of those processes; a thread may end at any time."""
    found: list[Path] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found += Path(f"/proc/{pid}/task").iterdir()
    return found


def _reaped_cpu_s(pid: int) -> float:
    """The CPU time of the children that a process has reaped, in whole ticks (cutime and cstime in proc(5))."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


def _fields(path: Path) -> dict[str, int]:
    """The `Name: 123 kB` lines of a /proc file; empty if the process has ended."""
    try:
        return {name: int(kb) for name, kb in re.findall(r"^(\w+):\s+(\d+) kB", path.read_text(), re.MULTILINE)}
    except OSError:
        return {}


if __name__ == "__main__":
    main()
