"""A program on a remote host, run by the agent there."""

import contextlib
import math
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from zonda_lab.errors import LabError
from zonda_lab.rig.process import Program
from zonda_lab.rig.procfs import Memory

STARTED_S = 30.0  # timeout for the first message of the agent
LOST = 255


class Supervisor(Protocol):
    """The interface of the host that a program needs."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def clock_offset_s(self) -> float:
        """Its monotonic clock minus ours."""

    def usage(self, pid: int) -> dict[str, Any]:
        """CPU time and memory below a process."""


class RemoteProgram(Program):
    """Receives the messages of `agent.program`; at its end calls `ended` with the CPU time used."""

    def __init__(
        self, name: str, host: Supervisor, channel: Any, log: Path, ended: Callable[[float], None] = lambda _: None
    ) -> None:
        super().__init__(name, log)
        self._host, self._channel, self._report = host, channel, ended
        self._output = log.open("ab", buffering=0)
        self._pid = 0
        self._status: int | None = None
        self._has_started, self._has_ended = threading.Event(), threading.Event()
        channel.setcallback(self._receive, endmarker=None)

    @property
    def status(self) -> int | None:
        """Its exit status; LOST if the connection was lost."""
        return self._status

    @property
    def pid(self) -> int:
        if not self._has_started.wait(STARTED_S) or not self._pid:
            raise LabError(f"{self._host.name}: {self.name} could not be started", detail=self.tail())
        return self._pid

    def wait(self, patience_s: float) -> bool:
        """Waits for its end and all of its output."""
        return self._has_ended.wait(None if patience_s == math.inf else patience_s)

    def cpu_s(self) -> float:
        return float(self._host.usage(self.pid)["cpu_s"])

    def memory(self) -> Memory:
        return Memory(**self._host.usage(self.pid)["memory"])

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):  # it has ended, or the connection has
            self._channel.send(int(number))

    def _receive(self, message: dict[str, Any] | bytes | None) -> None:
        """Called in the thread of the connection: start, pieces of output, end, and None when the channel is closed."""
        if isinstance(message, bytes):
            self._output.write(message)
        elif message is None:
            self._end()
        elif "pid" in message:
            self._pid, self.began = message["pid"], message["began_ns"] / 1e9 - self._host.clock_offset_s
            self._has_started.set()
        else:
            self._report(message["cpu_s"])
            self._status = message["status"]
            self._has_ended.set()

    def _end(self) -> None:
        if self._status is None:
            self._output.write(
                f"zonda-lab: {self._host.name}: the connection was lost while {self.name} ran\n".encode()
            )
            self._status = LOST
        self._output.close()
        self._has_started.set()
        self._has_ended.set()
