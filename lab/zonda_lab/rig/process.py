"""Programs started by the lab: process tree, CPU time and memory.

Every program runs in its own PID namespace under `unshare --kill-child`. The kernel kills it when this process dies, so
nothing is left running, even if the lab is killed.
"""

import contextlib
import math
import os
import resource
import select
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.rig.procfs import Memory, cpu_s, descendants, memory_of

GUARD = ["setpriv", "--pdeathsig", "KILL", "--"]
# Gets a tenth of a CPU that others want, whether sessions (with autogroups, sched(7)) or programs share it.
# SCHED_IDLE would starve beside a saturated server where there are no autogroups.
YIELDING = ["sh", "-c", '{ echo 10 > /proc/self/autogroup; } 2> /dev/null; exec nice -n 10 "$@"', "sh"]
TAIL = 600  # characters of a log in a message
OWN_TREE = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--"]


class Program(ABC):
    """A program running on a host; its output is appended to `log`."""

    def __init__(self, name: str, log: Path) -> None:
        self.name, self.log, self.began = name, log, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    @abstractmethod
    def status(self) -> int | None:
        """Its exit status; None while it runs."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process id of its wrapper on its host."""

    @abstractmethod
    def wait(self, patience_s: float) -> bool:
        """Waits for its end; False on timeout."""

    @abstractmethod
    def cpu_s(self) -> float:
        """CPU time of all its running threads."""

    @abstractmethod
    def memory(self) -> Memory:
        """Its memory; shared pages count once in PSS."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Signals the program, which is the first child of the wrapper."""

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self.status is None

    def require_alive(self) -> None:
        """Raises with the end of its log if it has ended."""
        if not self.alive:
            raise LabError(f"{self.name} ended with status {self.status}", detail=f"its log ends: {self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-TAIL:].strip() or "(empty)"

    def stop(self, patience_s: float = 0.3) -> None:
        """Sends SIGTERM, then SIGKILL, which ends all processes of its PID namespace.

        Some servers take seconds to shut down; their cleanup is not needed.
        """
        self.signal(signal.SIGTERM)
        if not self.wait(patience_s):
            self.signal(signal.SIGKILL)
            self.wait(math.inf)


class Process(Program):
    """A local program; `command` includes the wrappers for namespace and CPUs."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        super().__init__(name, log)
        with log.open("ab") as output:
            self.child = subprocess.Popen(
                [*GUARD, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        return self.child.poll()

    @property
    def pid(self) -> int:
        return self.child.pid

    def wait(self, patience_s: float) -> bool:
        """Waits for its end; False on timeout. Uses a pidfd, because polling would disturb the measurement."""
        if not self.alive:
            return True
        ended = os.pidfd_open(self.child.pid)
        try:
            if not select.select([ended], [], [], None if patience_s == math.inf else patience_s)[0]:
                return False
        finally:
            os.close(ended)
        self.child.wait()
        return True

    def pids(self) -> list[int]:
        """The process ids of the program and its descendants, without the wrapper."""
        return descendants(self.child.pid)

    def cpu_s(self) -> float:
        return cpu_s(self.pids())

    def memory(self) -> Memory:
        return memory_of(self.pids())

    def signal(self, number: signal.Signals) -> None:
        for pid in self.pids()[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def descriptor_limit(descriptors: int) -> list[str]:
    """The command prefix that sets the file descriptor limit; raises if the limit is not permitted."""
    limit = ["prlimit", f"--nofile={descriptors}:{descriptors}", "--"]
    if subprocess.run([*limit, "true"], capture_output=True, check=False).returncode:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        raise UnsupportedError(
            f"cannot raise the limit to {descriptors} file descriptors, the hard limit is {most}", "raise `ulimit -Hn`"
        )
    return limit
