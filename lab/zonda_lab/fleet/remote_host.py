"""A remote machine as a `Host`: programs run under a guard, files are copied if they differ, sockets are relayed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import socket
import tarfile
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from zonda_lab import machine_info, procfs
from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.fleet import guard, relay
from zonda_lab.fleet.clock_offset import ClockOffset
from zonda_lab.fleet.inventory import HostSpec
from zonda_lab.fleet.relay_client import RelayClient
from zonda_lab.fleet.remote_program import RemoteProgram
from zonda_lab.fleet.ssh import SshConnection
from zonda_lab.host import Stream
from zonda_lab.process import GUARD, OWN_TREE
from zonda_lab.server_config import Endpoint

SCRIPTS = (guard, relay, procfs, machine_info)  # run there; standard library only
TOOLS = ("setpriv", "unshare", "prlimit", "taskset", "ip", "tar", "sha256sum", "xargs", "dd")
OLDEST = (3, 10)
FACTS = f"""
import json, os, shutil, sys
path = os.environ["PATH"]
print(json.dumps({{"python": sys.executable, "version": sys.version_info[:2], "cpus": os.cpu_count(),
                   "uid": os.getuid(), "missing": [tool for tool in {TOOLS} if not shutil.which(tool, path=path)]}}))
"""
BATCH = 1000  # files compared at once, so that the output fits in an SSH window


class RemoteHost:
    """A connected host; `folder` is the session folder, at the same path here and there."""

    def __init__(self, spec: HostSpec, work: Path, folder: Path, pinned: bool) -> None:
        self.spec, self.name, self.python = spec, spec.name, spec.python
        self.lab_cpu_s = 0.0
        self.programs: dict[str, str] = {}  # local path -> path on this machine
        self._work, self._folder, self._pinned = work, folder, pinned
        self._placed: dict[Path, tuple[int, int]] = {}
        self._connection = SshConnection(spec)
        try:
            self._settle()
        except BaseException:
            self._connection.close()
            raise

    def _settle(self) -> None:
        """Checks the requirements and sets up the session in the work folder."""
        self.facts = self._examined()
        self.python = self.facts["python"]  # the interpreter itself, not a slow wrapper
        script = 'mkdir -p -m 700 "$1" && test -O "$1" || { echo "$1 is not ours" >&2; exit 1; }'
        self.run("sh", "-c", script, "sh", self._work)
        scripts = [self._folder / Path(str(module.__file__)).name for module in SCRIPTS]
        self.place(*scripts)
        self._relay = RelayClient(self.name, self._connection.start([self.python, self._script(relay), self._folder]))
        self.read_clock()

    def _examined(self) -> dict[str, Any]:
        status, printed, errors = self._connection.run([self.python, "-c", FACTS])
        if status:
            raise LabError(
                f"{self.name}: `{self.python}` does not run: {errors.strip()}",
                "install Python there, or give its path by `python`",
            )
        facts: dict[str, Any] = json.loads(printed)
        if tuple(facts["version"]) < OLDEST:
            raise LabError(f"{self.name}: `{self.python}` is older than 3.10", "give the path of a newer by `python`")
        if facts["missing"]:
            tools = ", ".join(facts["missing"])
            raise LabError(f"{self.name}: no {tools} there", "install util-linux, iproute2, coreutils, findutils, tar")
        return facts

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
            raise UnsupportedError(
                f"{self.name} has one source address only", "give it a prefix by `sources` in the inventory"
            )
        return self.spec.sources

    def close(self) -> None:
        """Closes the connection; the remote guards and relay stop all programs and remove the lab's files."""
        self._connection.close()

    def read_clock(self) -> ClockOffset:
        """Measures the clock offset again."""
        self.clock, self.real_offset_s = self._relay.clock()
        return self.clock

    def start(
        self, name: str, argv: Sequence[str | Path], log: Path, cpus: Sequence[int] = (), descriptors: int = 0
    ) -> RemoteProgram:
        """Starts a program in a process tree of its own, which ends with the connection."""
        tree = OWN_TREE if self.facts["uid"] == 0 else [word for word in OWN_TREE if word != "--pid"]
        command = [*GUARD, *self._pin(cpus), *self._limit(descriptors), *tree, *self._known(argv)]
        channel = self._connection.start([self.python, self._script(guard), *command])
        return RemoteProgram(name, self, channel, log, self._spent)

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

    def kill(self, pid: int, number: signal.Signals) -> None:
        """Signals the first process below another, if it is still there."""
        script = 'read -r first rest < "/proc/$1/task/$1/children"; test -z "$first" || kill -"$2" "$first"'
        self._connection.run(["sh", "-c", script, "sh", str(pid), str(int(number))])

    def read_sysctl(self, key: str) -> str:
        return self.run("cat", f"/proc/sys/{key.replace('.', '/')}").strip()

    def udp_socket(self, endpoint: Endpoint) -> socket.socket:
        return self._relay.open(endpoint)

    def tcp_stream(self, endpoint: Endpoint, timeout_s: float) -> Stream:
        stream: Stream = self._connection.tcp(endpoint.address, endpoint.port, timeout_s)
        return stream

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
            status, _, errors = self._connection.feed(argv, partial(_pack, wanted))
            if status:
                raise LabError(f"{self.name}: files cannot be copied there: {errors.strip() or f'status {status}'}")
        self._placed.update({path: states[path] for path in new})

    def clear(self) -> None:
        """Removes the files of one start."""
        with contextlib.suppress(LabError):  # the host is gone, and its relay has removed them
            self.run("find", self._folder, "-mindepth", "1", "-type", "d", "-prune", "-exec", "rm", "-rf", "{}", "+")
        self._placed = {
            p: s for p, s in self._placed.items() if p.parent == self._folder or self._folder not in p.parents
        }

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

    def _spent(self, cpu_s: float) -> None:
        self.lab_cpu_s += cpu_s

    def _pin(self, cpus: Sequence[int]) -> list[str]:
        """The CPUs in the inventory replace those of the experiment."""
        chosen = self.spec.cpus if self.spec.cpus is not None else cpus if self._pinned else ()
        if not cpus or not chosen:
            return []
        if missing := set(chosen) - set(range(self.facts["cpus"])):
            raise UnsupportedError(f"{self.name} has no CPU {min(missing)}")
        return ["taskset", "-c", ",".join(map(str, chosen))]

    def _limit(self, descriptors: int) -> list[str]:
        if not descriptors:
            return []
        limit = ["prlimit", f"--nofile={descriptors}:{descriptors}", "--"]
        if self._connection.run([*limit, "true"])[0]:
            raise UnsupportedError(f"{self.name}: {descriptors} descriptors are not available", "raise `ulimit -Hn`")
        return limit

    def _differing(self, files: Sequence[Path]) -> list[Path]:
        """The files that are missing or differ there."""
        differing, rest = list[Path](), iter(files)
        while batch := list(islice(rest, BATCH)):
            sums = "".join(f"{_digest(path)}  {path}\n" for path in batch).encode()
            argv = ["env", "LC_ALL=C", "sha256sum", "--check", "--quiet"]
            printed = self._connection.feed(argv, partial(_write, sums))[1]
            failed = {line.rpartition(": FAILED")[0] for line in printed.splitlines() if ": FAILED" in line}
            differing += [path for path in batch if str(path) in failed]
        return differing


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return (found.st_mtime_ns, found.st_size) if path.is_file() else (0, 0)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(content: bytes, stream: BinaryIO) -> None:
    stream.write(content)


def _pack(paths: Sequence[Path], stream: BinaryIO) -> None:
    """Writes a tar archive with absolute paths."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            entry = archive.gettarinfo(path)
            entry.name = str(path)
            with path.open("rb") if path.is_file() else contextlib.nullcontext() as content:
                archive.addfile(entry, content)
