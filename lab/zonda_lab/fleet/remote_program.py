"""A program on a remote host, run by `guard.py` over its own SSH channel."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from zonda_lab.errors import LabError
from zonda_lab.process import Program
from zonda_lab.procfs import Memory

BEAT_S = 5.0  # interval of heartbeats to the guard
HEADER_S = 30.0  # timeout for the first line of the guard
KILL_S = 10.0
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

    def kill(self, pid: int, number: signal.Signals) -> None:
        """Signals the first process below another."""


class RemoteProgram(Program):
    """Follows the channel of a guard until it ends; then calls `ended` with the CPU time used."""

    def __init__(
        self, name: str, host: Supervisor, channel: Any, log: Path, ended: Callable[[float], None] = lambda _: None
    ) -> None:
        super().__init__(name, log)
        log.touch()
        self._host, self._channel, self._ended = host, channel, ended
        self._status: int | None = None
        self._guard_output = b""  # standard error of the guard
        self._guard_lock = threading.Lock()
        channel.settimeout(BEAT_S)
        self._thread = threading.Thread(target=self._follow, name=f"{host.name} {name}", daemon=True)
        self._thread.start()

    @property
    def status(self) -> int | None:
        """Its exit status; LOST if the connection was lost."""
        return self._status

    @property
    def pid(self) -> int:
        return int(self._started()["pid"])

    def wait(self, patience_s: float) -> bool:
        """Waits for its end and all of its output."""
        self._thread.join(None if patience_s == math.inf else patience_s)
        return not self._thread.is_alive()

    def cpu_s(self) -> float:
        return float(self._host.usage(self.pid)["cpu_s"])

    def memory(self) -> Memory:
        return Memory(**self._host.usage(self.pid)["memory"])

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            self._host.kill(self.pid, number)

    def stop(self, patience_s: float = 1.0) -> None:
        """Sends SIGTERM, then lets the guard kill it."""
        with contextlib.suppress(LabError):  # not started, or the host is gone
            self.signal(signal.SIGTERM)
            self.wait(patience_s)
        with contextlib.suppress(OSError):
            self._channel.shutdown_write()
        self.wait(KILL_S)
        self._channel.close()

    def _started(self) -> dict[str, Any]:
        """The first line of the guard."""
        with self._guard_lock:
            deadline = time.monotonic() + HEADER_S
            while b"\n" not in self._guard_output and time.monotonic() < deadline:
                try:
                    piece = self._channel.recv_stderr(4096)
                except TimeoutError:
                    continue
                if not piece:
                    break
                self._guard_output += piece
            try:
                header: dict[str, Any] = json.loads(self._guard_output.split(b"\n")[0])
            except ValueError:
                said = self._guard_output.decode(errors="replace").strip().rpartition("\n")[2]
                raise LabError(
                    f"{self._host.name}: {self.name} could not be started", detail=said or "no answer"
                ) from None
        self.began = header["began_ns"] / 1e9 - self._host.clock_offset_s
        return header

    def _follow(self) -> None:
        """Logs its output and sends heartbeats until the channel ends."""
        beat = time.monotonic()
        with self.log.open("ab", buffering=0) as log:
            while True:
                with contextlib.suppress(TimeoutError):
                    if not (piece := self._channel.recv(65536)):
                        break
                    log.write(piece)
                if time.monotonic() - beat > BEAT_S / 2:
                    with contextlib.suppress(OSError):  # closed just now
                        self._channel.send(b".")
                    beat = time.monotonic()
            self._end(log)

    def _end(self, log: FileIO) -> None:
        status: int = self._channel.recv_exit_status()  # -1: the connection was lost
        if status < 0:
            log.write(f"zonda-lab: {self._host.name}: the connection was lost while {self.name} ran\n".encode())
        with self._guard_lock, contextlib.suppress(OSError):
            while piece := self._channel.recv_stderr(4096):
                self._guard_output += piece
        with contextlib.suppress(ValueError, KeyError):
            self._ended(json.loads(self._guard_output.splitlines()[-1] if self._guard_output else "{}")["cpu_s"])
        self._status = status if status >= 0 else LOST
