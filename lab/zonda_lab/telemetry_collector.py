"""Runs the telemetry sampler on one machine during a start and reads its samples."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from zonda_lab import telemetry_sampler
from zonda_lab.host import Host, TelemetryTarget
from zonda_lab.process import Program
from zonda_lab.telemetry_series import Telemetry

IDLE = ("chrt", "--idle", "0")


class TelemetryCollector:
    """One machine; its files lie in `folder`."""

    def __init__(self, watch: TelemetryTarget, folder: Path) -> None:
        self.watch, self.host = watch, watch.host
        self.file, self._labels = folder / "telemetry.jsonl", folder / "labels.json"
        self._script = folder / "telemetry.py"
        self._programs: dict[str, Program] = {}

    def start(self) -> Program:
        """Begins to watch; the program that does so is the caller's to end.

        It runs where and when nobody else wants to (SCHED_IDLE): at ten looks a second it would otherwise take a
        hundredth of a CPU from a generator that never sleeps, or from the server.
        """
        self._labels.parent.mkdir(exist_ok=True)
        shutil.copyfile(telemetry_sampler.__file__, self._script)
        self._labels.write_text("{}")
        self.host.place(self._labels, self._script)
        argv: list[str | Path] = [
            *IDLE,
            self.host.python,
            self._script,
            "--labels",
            self._labels,
            *self.watch.arguments,
        ]
        program = self.host.start("telemetry", argv, self.file)
        self.label("telemetry", program)
        return program

    def sees(self, host: Host) -> bool:
        """Is that host on this machine?"""
        return any(host is seen for seen in self.watch.sees)

    def label(self, label: str, program: Program) -> None:
        """Tells telemetry of a program."""
        self._programs[label] = program
        self._labels.write_text(json.dumps({label: program.pid for label, program in self._programs.items()}))
        self.host.place(self._labels)

    def own_cpu_s(self) -> float:
        """CPU time there of the lab itself and all it started but the server, also of what has ended."""
        living = [program for label, program in self._programs.items() if label != "server" and program.alive]
        return self.host.lab_cpu_s + sum(program.cpu_s() for program in living)

    def telemetry(self) -> Telemetry:
        """The telemetry so far, by our clock."""
        return Telemetry.load(self.file).shifted(-self.host.clock_offset_s)
