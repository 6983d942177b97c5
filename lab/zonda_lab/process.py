"""A program that the lab started: its process tree, CPU time and memory; it never outlives the lab.

Every program runs in a PID namespace of its own under `unshare --kill-child`, which the kernel kills when this process
dies. So nothing is left behind, not even by a lab that was killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.rig import Namespace

GUARD = ["setpriv", "--pdeathsig", "KILL", "--"]
OWN_TREE = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--"]


@dataclass(frozen=True)
class Memory:
    """Memory of a process tree, in kB."""

    rss_kb: int
    pss_kb: int
    peak_kb: int


class Process:
    """A running program inside a namespace."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        namespace: Namespace,
        log: Path,
        *,
        cpus: Sequence[int] = (),
        descriptors: int = 0,
    ) -> None:
        self.name, self.log = name, log
        limit = _descriptor_limit(descriptors) if descriptors else []
        command = [*GUARD, *namespace.command([*limit, *OWN_TREE, *argv], cpus)]
        with log.open("ab") as output:
            self.began = time.monotonic()
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        """Has it not ended yet?"""
        return self.child.poll() is None

    def require_alive(self) -> None:
        """Raises with the end of its log if it has died."""
        if not self.alive:
            raise LabError(f"{self.name} ended with status {self.child.returncode}", f"its log ends: {self.tail()}")

    def tail(self, length: int = 600) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-length:].strip() or "(empty)"

    def pids(self) -> list[int]:
        """The program and all below it, without the wrapper."""
        return descendants(self.child.pid)

    def cpu_s(self) -> float:
        """CPU time of all its living threads."""
        return sum(map(thread_run_ns, threads(self.pids()))) / 1e9

    def memory(self) -> Memory:
        """Its memory; shared pages count once in PSS."""
        rollups = [_fields(Path(f"/proc/{pid}/smaps_rollup")) for pid in self.pids()]
        statuses = [_fields(Path(f"/proc/{pid}/status")) for pid in self.pids()]
        return Memory(
            rss_kb=sum(rollup.get("Rss", 0) for rollup in rollups),
            pss_kb=sum(rollup.get("Pss", 0) for rollup in rollups),
            peak_kb=sum(status.get("VmHWM", 0) for status in statuses),
        )

    def signal(self, number: signal.Signals) -> None:
        """Signals the program itself, the first below the wrapper."""
        for pid in self.pids()[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, patience_s: float = 1.0) -> None:
        """Asks it to end, then makes it."""
        self.signal(signal.SIGTERM)
        try:
            self.child.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)  # the first of its PID namespace: the kernel ends all others with it
            self.child.wait()


def _descriptor_limit(descriptors: int) -> list[str]:
    """Runs a program with so many descriptors; without root no more than the system allows."""
    limit = ["prlimit", f"--nofile={descriptors}:{descriptors}", "--"]
    if subprocess.run([*limit, "true"], capture_output=True, check=False).returncode:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        raise UnsupportedError(
            f"{descriptors} descriptors are not to be had, {most} are the most", "raise `ulimit -Hn`"
        )
    return limit


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, nearest first."""
    found: list[int] = []
    todo = [pid]
    while todo:
        parent = todo.pop(0)
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                todo += map(int, children.read_text().split())
        found.append(parent)
    return found[1:]


def threads(pids: Sequence[int]) -> list[Path]:
    """The /proc folders of all threads."""
    return [task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*")]


def thread_run_ns(task: Path) -> int:
    """Nanoseconds that a thread has run; 0 if it is gone."""
    try:
        return int((task / "schedstat").read_text().split()[0])
    except (OSError, IndexError):
        return 0


def _fields(path: Path) -> dict[str, int]:
    """`Name: 123 kB` lines of a /proc file; nothing if the process is gone."""
    try:
        return {name: int(kb) for name, kb in re.findall(r"^(\w+):\s+(\d+) kB", path.read_text(), re.MULTILINE)}
    except OSError:
        return {}
