"""Bounds that arithmetic gives, printed beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass

TIME_WAIT_S = 60.0  # TCP_TIMEWAIT_LEN of Linux, not changeable


@dataclass(frozen=True)
class PortBound:
    """How fast connections can be made when each leaves a socket in TIME_WAIT behind."""

    ports: int
    tuples: int
    connections_per_s: float

    def seconds(self, connections: int) -> float:
        """The least time for so many: the first `tuples` are free, the others wait for ports to come back."""
        return max(0.0, (connections - self.tuples) / self.connections_per_s)


def port_bound(
    port_range: tuple[int, int], sources: int = 1, destinations: int = 1, time_wait_buckets: int = 2**31
) -> PortBound:
    """TCP allows a connection per (source, source port, destination, port): each tuple once in TIME_WAIT_S seconds.

    Sockets beyond `time_wait_buckets` skip TIME_WAIT, so with few buckets the bound disappears.
    """
    ports = port_range[1] - port_range[0] + 1
    tuples = ports * sources * destinations
    if time_wait_buckets < tuples:
        return PortBound(ports, tuples, float("inf"))
    return PortBound(ports, tuples, tuples / TIME_WAIT_S)
