"""A remote machine as a `Host`: an agent there runs programs, opens sockets and reads the clock; files are copied."""

import contextlib
import json
import math
import os
import signal
import socket
import tarfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.fleet import agent
from zonda_lab.fleet.inventory import HostSpec
from zonda_lab.fleet.ssh import SshConnection
from zonda_lab.rig import machine_info, procfs
from zonda_lab.rig.process import GUARD, OWN_TREE, Program
from zonda_lab.rig.procfs import Memory
from zonda_lab.servers.config import Endpoint

SCRIPTS = (procfs, machine_info)  # run there; standard library only
OLDEST = (3, 10)
EXCHANGES = 20  # round trips for the clock offset
STARTED_S = 30.0  # timeout for the first message of the agent
LOST = 255  # status of a program whose connection was lost


@dataclass(frozen=True)
class Exchange:
    """One round trip: our clock at sending, the host's clock at answering, our clock at receiving; seconds."""

    sent: float
    there: float
    received: float


@dataclass(frozen=True)
class ClockOffset:
    """The host's clock minus ours, with its uncertainty; seconds."""

    offset_s: float
    uncertainty_s: float
    round_trip_s: float


def estimate(exchanges: Iterable[Exchange]) -> ClockOffset:
    """The offset consistent with all round trips: the host read its clock between `sent` and `received`."""
    known = list(exchanges)
    low, high = max(e.there - e.received for e in known), min(e.there - e.sent for e in known)
    if low > high:
        raise LabError("a clock went wrong while it was read", "is the machine suspended, or moved to another host?")
    return ClockOffset((low + high) / 2, (high - low) / 2, min(e.received - e.sent for e in known))


def drift_ppm(earlier: ClockOffset, later: ClockOffset, seconds: float) -> tuple[float, float]:
    """How much faster the host's clock runs, in ppm, and its uncertainty."""
    uncertainty_s = earlier.uncertainty_s + later.uncertainty_s
    return (later.offset_s - earlier.offset_s) / seconds * 1e6, uncertainty_s / seconds * 1e6


class RemoteHost:
    """A connected host; `folder` is the session folder, at the same path here and there."""

    def __init__(self, spec: HostSpec, work: Path, folder: Path, pinned: bool) -> None:
        self.spec, self.name, self.python = spec, spec.name, spec.python
        self.lab_cpu_s = 0.0
        self.programs: dict[str, str] = {}  # local path -> path on this machine
        self._work, self._folder, self._pinned = work, folder, pinned
        self._placed: dict[Path, tuple[int, int]] = {}
        self._connection = SshConnection(spec, folder)
        try:
            self._settle()
        except BaseException:
            self._connection.close()
            raise

    def _settle(self) -> None:
        """Checks the requirements and copies the scripts."""
        self.facts = facts = self._connection.facts
        if tuple(facts["version"]) < OLDEST:
            raise LabError(f"{self.name}: `{self.python}` is older than 3.10", "give the path of a newer by `python`")
        if facts["missing"]:
            tools = ", ".join(facts["missing"])
            raise LabError(f"{self.name}: no {tools} there", "install util-linux, iproute2, coreutils, findutils, tar")
        if facts["owner"] != facts["uid"]:
            raise LabError(f"{self.name}: {self._work} is not ours", "name another folder by `work` in the inventory")
        self.python = facts["python"]  # the interpreter itself, not a slow wrapper
        self.place(*map(self._script, SCRIPTS))
        self.read_clock()

    @property
    def alive(self) -> bool:
        """Whether it is connected."""
        return self._connection.alive

    @property
    def clock_offset_s(self) -> float:
        return self.clock.offset_s

    @property
    def sources(self) -> str:
        if not self.spec.sources:
            help_text = "give it a prefix by `sources` in the inventory"
            raise UnsupportedError(f"{self.name} has one source address only", help_text)
        return self.spec.sources

    def close(self) -> None:
        """Closes the connection; the agent stops all programs and removes the lab's files."""
        self._connection.close()

    def read_clock(self) -> ClockOffset:
        """Measures the clock offset again, and that of its time of day."""
        exchanges = []
        for _ in range(EXCHANGES):
            sent, real = time.monotonic(), time.time()
            monotonic_ns, real_ns = self._connection.ask("clock")
            exchanges.append(Exchange(sent, monotonic_ns / 1e9, time.monotonic()))
            self.real_offset_s = real_ns / 1e9 - real
        self.clock = estimate(exchanges)
        return self.clock

    def start(
        self, name: str, argv: Sequence[str | Path], log: Path, cpus: Sequence[int] = (), descriptors: int = 0
    ) -> "RemoteProgram":
        """Starts a program in a process tree of its own, which ends with the connection."""
        tree = OWN_TREE if self.facts["uid"] == 0 else [word for word in OWN_TREE if word != "--pid"]
        command = [*GUARD, *self._pin(cpus), *self._limit(descriptors), *tree, *self._known(argv)]
        return RemoteProgram(name, self, self._connection.call("program", list(map(str, command))), log)

    def run(self, *argv: str | Path) -> str:
        status, printed, errors = self._connection.run(self._known(argv))
        if status:
            raise LabError(f"{self.name}: `{' '.join(map(str, argv))}` failed: {errors.strip() or f'status {status}'}")
        return printed

    def printed(self, argv: Sequence[str | Path]) -> str:
        """All output of a short command, whatever its status."""
        _, printed, errors = self._connection.run(self._known(argv))
        return printed + errors

    def usage(self, pid: int) -> dict[str, Any]:
        """CPU time and memory below a process."""
        found: dict[str, Any] = json.loads(self.run(self.python, self._script(procfs), str(pid)))
        return found

    def read_sysctl(self, key: str) -> str:
        return self.run("cat", f"/proc/sys/{key.replace('.', '/')}").strip()

    def udp_socket(self, endpoint: Endpoint) -> socket.socket:
        return self._socket("udp", endpoint, 0.0)

    def tcp_stream(self, endpoint: Endpoint, timeout_s: float) -> socket.socket:
        stream = self._socket("tcp", endpoint, timeout_s)
        stream.settimeout(timeout_s)
        return stream

    def _socket(self, kind: str, endpoint: Endpoint, timeout_s: float) -> socket.socket:
        """A local socket whose data the agent sends to `endpoint`, and back."""
        channel = self._connection.call("connect", kind, endpoint.address, endpoint.port, timeout_s)
        if number := self._connection.receive(channel):
            raise OSError(number, os.strerror(number))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_SEQPACKET)
        channel.setcallback(partial(agent.send, theirs), endmarker=b"")
        threading.Thread(target=_forward, args=(theirs, channel), name=f"{self.name} {kind}", daemon=True).start()
        return ours

    def place(self, *paths: Path) -> None:
        """Copies files and folders in the work folder that are missing or differ there."""
        states = {path: _state(path) for given in paths for path in (given, *sorted(given.rglob("*")))}
        for path in states:
            if not path.is_relative_to(self._work):
                raise LabError(f"{path} is outside of {self._work}", "the lab writes nowhere else on remote machines")
        new = [path for path, state in states.items() if self._placed.get(path) != state]
        folders, files = [path for path in new if path.is_dir()], [path for path in new if path.is_file()]
        wanted = folders + self._differing(files)
        if wanted:
            argv = ["tar", "--extract", "--absolute-names", "--no-same-owner", "--file", "-"]
            status, _, errors = self._connection.run(argv, partial(_pack, wanted))
            if status:
                raise LabError(f"{self.name}: files cannot be copied there: {errors.strip() or f'status {status}'}")
        self._placed.update({path: states[path] for path in new})

    def clear(self) -> None:
        """Removes the files of one start."""
        with contextlib.suppress(LabError):  # the host is gone, and its agent has removed them
            self.run("find", self._folder, "-mindepth", "1", "-type", "d", "-prune", "-exec", "rm", "-rf", "{}", "+")
        kept = [p for p in self._placed if p.parent == self._folder or self._folder not in p.parents]
        self._placed = {path: self._placed[path] for path in kept}

    def describe(self) -> dict[str, Any]:
        """Hardware, kernel and settings there, as `machine_info.describe` has them."""
        described: dict[str, Any] = json.loads(self.run(self.python, self._script(machine_info)))
        return described

    def _script(self, module: Any) -> Path:
        return self._folder / Path(module.__file__).name

    def _known(self, argv: Sequence[str | Path]) -> list[str]:
        """The command with the program's path on this machine."""
        first, *rest = map(str, argv)
        return [self.programs.get(first, first), *rest]

    def cpus_of(self, asked: Sequence[int]) -> Sequence[int]:
        """The CPUs of a program for which an experiment asks these: those in the inventory replace them."""
        chosen = self.spec.cpus if self.spec.cpus is not None else asked if self._pinned else ()
        return (chosen if asked else ()) or range(self.facts["cpus"])

    def _pin(self, cpus: Sequence[int]) -> list[str]:
        chosen, there = self.cpus_of(cpus), range(self.facts["cpus"])
        if missing := {*chosen} - {*there}:
            raise UnsupportedError(f"{self.name} has no CPU {min(missing)}")
        return ["taskset", "-c", ",".join(map(str, chosen))] if {*chosen} != {*there} else []

    def _limit(self, descriptors: int) -> list[str]:
        if not descriptors:
            return []
        limit = ["prlimit", f"--nofile={descriptors}:{descriptors}", "--"]
        if self._connection.run([*limit, "true"])[0]:
            raise UnsupportedError(f"{self.name}: {descriptors} descriptors are not available", "raise `ulimit -Hn`")
        return limit

    def _differing(self, files: Sequence[Path]) -> list[Path]:
        """The files that are missing or differ there."""
        digests = self._connection.ask("digests", list(map(str, files)))
        return [path for path, there in zip(files, digests, strict=True) if agent.digest(path) != there]


class RemoteProgram(Program):
    """A program on a remote host: receives the messages of `agent.program`."""

    def __init__(self, name: str, host: RemoteHost, channel: Any, log: Path) -> None:
        super().__init__(name, log)
        self._host, self._channel = host, channel
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
            self._host.lab_cpu_s += message["cpu_s"]
            self._status = message["status"]
            self._has_ended.set()

    def _end(self) -> None:
        if self._status is None:
            lost = f"zonda-lab: {self._host.name}: the connection was lost while {self.name} ran\n"
            self._output.write(lost.encode())
            self._status = LOST
        self._output.close()
        self._has_started.set()
        self._has_ended.set()


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return (found.st_mtime_ns, found.st_size) if path.is_file() else (0, 0)


def _pack(paths: Sequence[Path], stream: Any) -> None:
    """Writes a tar archive with absolute paths."""
    with tarfile.open(fileobj=stream, mode="w|", bufsize=agent.PIECE, format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            entry = archive.gettarinfo(path)
            entry.name = str(path)
            with path.open("rb") if path.is_file() else contextlib.nullcontext() as content:
                archive.addfile(entry, content)


def _forward(link: socket.socket, channel: Any) -> None:
    """Sends what is written to a local socket, until that is closed."""
    with link, contextlib.suppress(OSError):  # the connection has ended
        while piece := link.recv(agent.PIECE):
            channel.send(piece)
    channel.close()
