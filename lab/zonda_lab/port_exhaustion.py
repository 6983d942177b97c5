"""Bounds that arithmetic gives, printed beside what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

TIME_WAIT_S = 60.0  # TCP_TIMEWAIT_LEN of Linux, not changeable


@dataclass(frozen=True)
class PortBound:
    """How fast connections can be made when each leaves its tuple of addresses and ports in TIME_WAIT behind."""

    ports: int
    tuples: float

    @property
    def connections_per_s(self) -> float:
        """The rate that can be kept up for ever."""
        return self.tuples / TIME_WAIT_S

    def seconds(self, connections: int) -> float:
        """The least time for so many: every tuple once, then again after TIME_WAIT, and so on."""
        return TIME_WAIT_S * max(0, math.ceil(connections / self.tuples) - 1)


def port_bound(
    port_range: tuple[int, int], sources: int = 1, destinations: int = 1, time_wait_buckets: float = math.inf
) -> PortBound:
    """A connection is (source, source port, destination, port): each tuple once in TIME_WAIT_S seconds.

    Sockets beyond `time_wait_buckets` skip TIME_WAIT, so with fewer buckets than tuples there is no bound.
    """
    ports = port_range[1] - port_range[0] + 1
    tuples = ports * sources * destinations
    return PortBound(ports, tuples if time_wait_buckets >= tuples else math.inf)
