"""Finds out when zones are answered, with `zonda-load probe`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.load.generator import GRACE_S
from zonda_lab.load.result import events
from zonda_lab.rig.host import Host
from zonda_lab.rig.process import Program

STARTED_S = 20.0  # patience with a busy machine
VALID, MISSING = 0, 3  # exit statuses


@dataclass(frozen=True)
class Arrivals:
    """When zones were first answered, in seconds of the lab's monotonic clock, and how many never were."""

    seen: dict[str, float]
    missing: int


@dataclass(frozen=True)
class ZoneProbe:
    """A running `zonda-load probe` on the client, which asks for `zones` zones for at most `seconds`."""

    client: Host
    program: Program
    zones: int
    file: Path  # of the arrivals, on the client
    seconds: float

    def wait_started(self) -> int:
        """The wall-clock time of its machine, in nanoseconds, at which it began to ask."""
        deadline = time.monotonic() + STARTED_S
        while True:
            began = [e["time"] for e in events(self.program.log.read_text()) if e.get("msg_type") == "probing"]
            if began:
                return int(began[0])
            if self.program.status not in (None, VALID, MISSING) or time.monotonic() > deadline:
                raise LabError("the probe of zones did not start", detail=self.program.tail())
            time.sleep(0.005)

    def arrivals(self, at_realtime: Callable[[int], float], tick: Callable[[], None]) -> Arrivals:
        """Waits for its end and returns all arrivals; calls `tick` meanwhile, which may raise."""
        deadline = time.monotonic() + self.seconds + GRACE_S
        while not self.program.wait(0.1):
            tick()
            if time.monotonic() > deadline:
                raise LabError("the probe of zones did not end", detail=self.program.tail())
        began = at_realtime(self.wait_started())
        if self.program.status not in (VALID, MISSING):
            raise LabError("the probe of zones failed", detail=self.program.tail())
        lines = [line.split() for line in self.client.run("cat", self.file).splitlines()]
        seen = {name: began + float(at) for at, name, *_ in lines}
        return Arrivals(seen, self.zones - len(seen))
