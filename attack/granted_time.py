"""Time without what the machine takes away: to a hypervisor or to other programs, which is no delay of the server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WAKE_UPS_PER_S = 2000  # on all processors together
TOLERATED_S = 0.002  # a thread wakes that late on an idle machine, too

Stopwatch = Callable[[], float]


class Probe:
    """A thread on one processor that sleeps for short times; what it oversleeps, that processor has not granted."""

    def __init__(self, cpu: int, sleep_s: float, ends: threading.Event) -> None:
        self.state = time.monotonic(), 0.0  # asleep since, lost before; one assignment, as others read it
        self.longest_s = sleep_s + TOLERATED_S
        threading.Thread(target=self.run, args=(cpu, sleep_s, ends), daemon=True).start()

    def run(self, cpu: int, sleep_s: float, ends: threading.Event) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread
        while not ends.is_set():
            self.state = time.monotonic(), self.lost_s()
            time.sleep(sleep_s)

    def lost_s(self) -> float:
        """Seconds that were not granted so far, a sleep that should have ended included."""
        since, lost_s = self.state
        return lost_s + max(0.0, time.monotonic() - since - self.longest_s)


@contextmanager
def granted_time() -> Iterator[Callable[[], Stopwatch]]:
    """Makes stopwatches, which return the time since they were made, less what the processor that lost most has lost."""
    cpus, ends = os.sched_getaffinity(0), threading.Event()
    probes = [Probe(cpu, len(cpus) / WAKE_UPS_PER_S, ends) for cpu in cpus]

    def stopwatch() -> Stopwatch:
        began, before_s = time.monotonic(), [probe.lost_s() for probe in probes]
        return lambda: time.monotonic() - began - max(probe.lost_s() - lost_s for probe, lost_s in zip(probes, before_s))

    try:
        yield stopwatch
    finally:
        ends.set()
