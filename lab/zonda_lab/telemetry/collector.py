"""Runs the telemetry sampler on one machine during a start and reads its samples."""

import json
import shutil
import signal
import time
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.rig.host import Host, TelemetryTarget
from zonda_lab.rig.process import YIELDING, Program
from zonda_lab.telemetry import sampler
from zonda_lab.telemetry.series import Telemetry

EDGE = '"edge": true}'  # end of the line of such a sample
PATIENCE_S = 20.0  # on a busy machine


class TelemetryCollector:
    """The telemetry of one machine; `folder` holds its files."""

    def __init__(self, target: TelemetryTarget, folder: Path) -> None:
        self.target, self.host = target, target.host
        self.file, self._labels = folder / "telemetry.jsonl", folder / "labels.json"
        self._script = folder / "telemetry.py"
        self._programs: dict[str, Program] = {}
        self._marked_at = 0

    def start(self) -> Program:
        """Starts the sampler; the caller stops it.

        It shares the generator's CPU, where a query that is due during a sample leaves late: it samples rarely and with
        little weight.
        """
        self._labels.parent.mkdir(exist_ok=True)
        shutil.copyfile(sampler.__file__, self._script)
        self._labels.write_text("{}")
        self.host.place(self._labels, self._script)
        sampling: list[str | Path] = [self._script, "--labels", self._labels, *self.target.arguments]
        command = [*YIELDING, self.host.python, *sampling]
        self._program = self.host.start("telemetry", command, self.file, self.target.cpus)
        self.label("telemetry", self._program)
        for label, program in self.target.programs.items():
            self.label(label, program)
        return self._program

    def mark(self) -> None:
        """Asks for a sample at once; `wait_for_mark` waits for it."""
        self._output(0, "\n")  # until its first line, the sampler would die of the signal
        self._marked_at = self.file.stat().st_size
        self._program.signal(signal.SIGUSR1)

    def wait_for_mark(self) -> float:
        """When the sample of the latest mark was taken, on the lab's clock."""
        lines = self._output(self._marked_at, EDGE).splitlines()
        taken: int = json.loads(next(line for line in lines if line.endswith(EDGE)))["t"]
        return taken / 1e9 - self.host.clock_offset_s

    def at_realtime(self, realtime_ns: int) -> float:
        """A wall-clock time of that machine on the lab's clock."""
        header, _, _ = self._output(0, "\n").partition("\n")  # of a sampler that may only now have started
        clock: dict[str, int] = json.loads(header)["clock"]
        return (clock["monotonic_ns"] + realtime_ns - clock["realtime_ns"]) / 1e9 - self.host.clock_offset_s

    def _output(self, start: int, wanted: str) -> str:
        """The sampler's output from `start`, as soon as it has a whole line that ends in `wanted`."""
        deadline = time.monotonic() + PATIENCE_S
        while f"{wanted.rstrip()}\n" not in (text := self._read(start)):
            self._program.require_alive()
            if time.monotonic() > deadline:
                raise LabError(f"{self.host.name}: no telemetry for {PATIENCE_S:.0f} s", "stop other programs there")
            time.sleep(0.002)
        return text

    def _read(self, start: int) -> str:
        with self.file.open("rb") as file:
            file.seek(start)
            return file.read().decode()

    def covers(self, host: Host) -> bool:
        """Whether that host is on this machine."""
        return any(host is covered for covered in self.target.hosts)

    def label(self, label: str, program: Program) -> None:
        """Adds a program to the sampled processes."""
        self._programs[label] = program
        self._labels.write_text(json.dumps({label: program.pid for label, program in self._programs.items()}))
        self.host.place(self._labels)

    def own_cpu_s(self) -> float:
        """CPU time of the lab and its programs on that machine, including ended ones, without the server."""
        living = [program for label, program in self._programs.items() if label != "server" and program.alive]
        return self.host.lab_cpu_s + sum(program.cpu_s() for program in living)

    def telemetry(self) -> Telemetry:
        """The telemetry so far, on the lab's clock."""
        return Telemetry.load(self.file).shifted(-self.host.clock_offset_s)
