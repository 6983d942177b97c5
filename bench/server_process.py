"""Processes that are measured: `zonda` and others, and what /proc says about them; commands of `zonda-load` and their results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "lab"))
from zonda_lab.rig import procfs

ROOT = Path(__file__).resolve().parent.parent
ZONDA = os.environ.get("ZONDA", str(ROOT / "target/release/zonda"))
LOAD = os.environ.get("ZONDA_LOAD", str(ROOT / "target/release/zonda-load"))
IDLE_S = 0.01  # CPU time in a second of a process that has nothing to do: its timers
VOID = 3  # status of `zonda-load` after a result that its own checks reject


@contextmanager
def started(command: list[str], log: Path, cpu: int | None = None, end: int = signal.SIGTERM) -> Iterator[subprocess.Popen[bytes]]:
    """A process on this CPU with its output in a file; it gets the signal at the end."""
    with log.open("wb") as out, subprocess.Popen(pinned(command, cpu), stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.send_signal(end)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                print(f"still running 20 s after {signal.Signals(end).name}, so killed: {' '.join(command)}")


def pinned(command: list[str], cpu: int | None) -> list[str]:
    """The command that runs it on this CPU."""
    return command if cpu is None else ["taskset", "-c", str(cpu), *command]


def load_result(arguments: list[str], cpu: int | None = None, may_be_void: bool = False) -> dict:
    """Runs a command of `zonda-load`; returns its result."""
    done = subprocess.run(pinned([LOAD, *arguments], cpu), capture_output=True, text=True, check=False)
    if done.returncode and not (may_be_void and done.returncode == VOID):
        raise SystemExit(f"zonda-load {arguments[0]}: {done.stdout[-600:]}{done.stderr[-600:]}")
    return result_in(done.stdout)


def result_in(output: str) -> dict:
    """The result in what `zonda-load` has printed."""
    lines = output.splitlines()
    found = [line for line in lines if '"stats_sum"' in line]
    if not found:
        raise SystemExit(f"no result: {lines[-3:]}")
    return json.loads(found[-1])


@contextmanager
def serving(folder: Path, config: str, cpu: int | None = 0) -> Iterator[ServerProcess]:
    """A running `zonda` with this configuration in this folder; it is killed at the end."""
    folder.mkdir(exist_ok=True)
    (folder / "zonda.toml").write_text(config)
    with started([ZONDA, "serve", "--config", f"{folder}/zonda.toml"], folder / "log", cpu, signal.SIGKILL) as process:
        yield ServerProcess(process)


class ServerProcess:
    """A server and its resources."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.proc = Path(f"/proc/{process.pid}")

    def cpu_s(self) -> float:
        """CPU seconds of the process, without its children."""
        return procfs.own_cpu_s(self.process.pid)

    def thread_times(self) -> Counter[str]:
        """CPU seconds of each kind of thread. Threads that have ended are in `ended`."""
        times: Counter[str] = Counter()
        for name, used_ns in procfs.thread_times(self.process.pid).items():
            times[name.rstrip("0123456789-")] += used_ns / 1e9
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

    def wait_until_idle(self) -> None:
        """Waits until it has used no CPU time worth mentioning for a second."""
        used, before = self.cpu_s(), -1.0
        while used - before > IDLE_S:
            time.sleep(1)
            used, before = self.cpu_s(), used

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Sends a signal; returns the seconds until the process has ended."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(120)
        return time.monotonic() - began
