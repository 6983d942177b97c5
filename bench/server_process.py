"""A running `zonda`, and what /proc says about it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ZONDA = os.environ.get("ZONDA", str(ROOT / "target/release/zonda"))
LOAD = os.environ.get("ZONDA_LOAD", str(ROOT / "target/release/zonda-load"))
TICKS = os.sysconf("SC_CLK_TCK")


class ServerProcess:
    """A server and its resources."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.proc = Path(f"/proc/{process.pid}")

    def cpu_s(self) -> float:
        """CPU seconds of the process."""
        return sum(int(value) for value in (self.proc / "stat").read_text().rsplit(")", 1)[1].split()[11:13]) / TICKS

    def thread_times(self) -> Counter[str]:
        """CPU seconds of each kind of thread. Threads that have ended are in `ended`."""
        times: Counter[str] = Counter()
        for task in self.proc.glob("task/*/stat"):
            try:
                name, rest = task.read_text().split(" (", 1)[1].rsplit(")", 1)
            except OSError:
                continue  # It has just ended.
            times[name.rstrip("0123456789-")] += sum(int(value) for value in rest.split()[11:13]) / TICKS
        times["ended"] = self.cpu_s() - times.total()
        return times

    def memory(self, file: str, name: str) -> float:
        """A value in octets."""
        lines = (self.proc / file).read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

    def pss(self) -> float:
        """Proportional set size in octets."""
        return self.memory("smaps_rollup", "Pss:")

    def peak(self) -> float:
        """The largest resident set so far, in octets."""
        return self.memory("status", "VmHWM:")

    def written(self) -> int:
        """Octets that were sent to the disk."""
        lines = (self.proc / "io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Sends a signal; returns the seconds until the process has ended."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(120)
        return time.monotonic() - began
