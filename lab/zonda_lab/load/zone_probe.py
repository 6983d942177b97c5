"""Finds out when zones are answered, with `zonda-load probe`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.load.generator import GRACE_S, LoadGenerator
from zonda_lab.load.jobs import ProbeJob
from zonda_lab.load.summary import events
from zonda_lab.rig.host import Host
from zonda_lab.rig.process import Program
from zonda_lab.servers.config import Endpoint

STARTED_S = 20.0  # patience with a busy machine
VALID, MISSING = 0, 3  # exit statuses


@dataclass(frozen=True)
class Arrivals:
    """When zones were first answered, in seconds of the lab's monotonic clock, and how many never were."""

    seen: dict[str, float]
    missing: int


class ZoneProbe:
    """Asks for each zone until it is answered, with `serial` if given, and for at most `seconds`."""

    def __init__(
        self,
        client: Host,
        start: Callable[[Sequence[str | Path]], Program],
        generator: LoadGenerator,
        files: Path,
        endpoint: Endpoint,
        names: Sequence[str],
        seconds: float,
        serial: int = 0,
    ) -> None:
        self._client, self._names, self._seconds = client, names, seconds
        zones, self._arrivals = files.with_suffix(".zones"), files.with_suffix(".arrivals")
        zones.write_text("".join(f"{name}\n" for name in names))
        client.place(zones)
        job = ProbeJob(endpoint, zones, self._arrivals, seconds, serial)
        self._program = start(generator.probe(job))

    def wait_started(self) -> int:
        """The wall-clock time of its machine, in nanoseconds, at which it began to ask."""
        deadline = time.monotonic() + STARTED_S
        while True:
            began = [e["time"] for e in events(self._program.log.read_text()) if e.get("msg_type") == "probing"]
            if began:
                return int(began[0])
            if self._program.status not in (None, VALID, MISSING) or time.monotonic() > deadline:
                raise LabError("the probe of zones did not start", detail=self._program.tail())
            time.sleep(0.005)

    def arrivals(self, at_realtime: Callable[[int], float], tick: Callable[[], None]) -> Arrivals:
        """Waits for its end and returns all arrivals; calls `tick` meanwhile, which may raise."""
        deadline = time.monotonic() + self._seconds + GRACE_S
        while not self._program.wait(0.1):
            tick()
            if time.monotonic() > deadline:
                raise LabError("the probe of zones did not end", detail=self._program.tail())
        began = at_realtime(self.wait_started())
        if self._program.status not in (VALID, MISSING):
            raise LabError("the probe of zones failed", detail=self._program.tail())
        lines = [line.split() for line in self._client.run("cat", self._arrivals).splitlines()]
        seen = {name: began + float(at) for at, name, *_ in lines}
        return Arrivals(seen, len(self._names) - len(seen))
