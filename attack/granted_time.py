"""Time without what the machine takes away: to a hypervisor or to other programs, which is no delay of the server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from zonda_lab.rig.procfs import own_cpu_s

WAKE_UPS_PER_S = 2000  # on all processors together
TOLERATED_S = 0.002  # a thread wakes that late on an idle machine, too

Stopwatch = Callable[[], float]


class Probe:
    """A thread on one processor that sleeps for short times.

    What it oversleeps, that processor has not granted, unless the server or the test ran meanwhile: then it may have waited for these.
    """

    def __init__(self, cpu: int, sleep_s: float, used_s: Callable[[], float], ends: threading.Event) -> None:
        self.used_s = used_s
        self.state = used_s(), 0.0, time.monotonic()  # used before, lost before, asleep since; one assignment, as others read it
        self.longest_s = sleep_s + TOLERATED_S
        threading.Thread(target=self.run, args=(cpu, sleep_s, ends), daemon=True).start()

    def run(self, cpu: int, sleep_s: float, ends: threading.Event) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread
        while not ends.is_set():
            self.state = self.used_s(), self.lost_s(), time.monotonic()
            time.sleep(sleep_s)

    def lost_s(self) -> float:
        """Seconds that were not granted so far, a sleep that should have ended included."""
        used_s, lost_s, since = self.state
        overslept_s = time.monotonic() - since - self.longest_s
        if overslept_s <= 0:
            return lost_s
        running_s = max(0.0, self.used_s() - used_s)  # less than none if a server has ended
        return lost_s + max(0.0, overslept_s - running_s)


@contextmanager
def granted_time(servers: Callable[[], Iterable[int]] = tuple) -> Iterator[Callable[[], Stopwatch]]:
    """Makes stopwatches, which return the time since they were made, less what the processor that lost most has lost.

    `servers` returns the process ids of the servers under test. Time in which they or this process run is never subtracted.
    """
    cpus, ends = os.sched_getaffinity(0), threading.Event()

    def used_s() -> float:
        return time.process_time() + sum(map(own_cpu_s, servers()))

    probes = [Probe(cpu, len(cpus) / WAKE_UPS_PER_S, used_s, ends) for cpu in cpus]

    def stopwatch() -> Stopwatch:
        began, before_s = time.monotonic(), [probe.lost_s() for probe in probes]

        def granted_s() -> float:
            lost_s = max(probe.lost_s() - lost_before_s for probe, lost_before_s in zip(probes, before_s))
            return time.monotonic() - began - max(0.0, lost_s)

        return granted_s

    try:
        yield stopwatch
    finally:
        ends.set()
