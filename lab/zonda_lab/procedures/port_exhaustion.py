"""The connection rate that local ports and TIME_WAIT allow, to compare with measurements."""

import math
from dataclasses import dataclass

TIME_WAIT_S = 60.0  # TCP_TIMEWAIT_LEN of Linux, not configurable


@dataclass(frozen=True)
class PortBound:
    """The bound when every connection leaves its address and port tuple in TIME_WAIT."""

    ports: int
    tuples: float

    @property
    def connections_per_s(self) -> float:
        """The sustainable rate."""
        return self.tuples / TIME_WAIT_S

    def seconds(self, connections: int) -> float:
        """The minimum time for `connections`: each tuple is usable once per TIME_WAIT_S."""
        return TIME_WAIT_S * max(0, math.ceil(connections / self.tuples) - 1)


def port_bound(port_range: tuple[int, int], destinations: int = 1, time_wait_buckets: float = math.inf) -> PortBound:
    """The bound for tuples (source port, destination, port) of one source, each usable once per TIME_WAIT_S.

    Sockets in excess of `time_wait_buckets` skip TIME_WAIT, so with fewer buckets than tuples there is no bound.
    """
    ports = port_range[1] - port_range[0] + 1
    tuples = ports * destinations
    return PortBound(ports, tuples if time_wait_buckets >= tuples else math.inf)
