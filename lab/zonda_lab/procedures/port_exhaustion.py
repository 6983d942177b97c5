"""The connection rate that local ports and TIME_WAIT allow, to compare with measurements."""

import math

TIME_WAIT_S = 60.0  # TCP_TIMEWAIT_LEN of Linux, not configurable


def ports_in(port_range: str) -> int:
    """How many ports a value of `net.ipv4.ip_local_port_range` has."""
    low, high = map(int, port_range.split())
    return high - low + 1


def usable_tuples(port_range: str, destinations: int = 1, time_wait_buckets: float = math.inf) -> float:
    """The tuples (source port, destination) of one source, each usable once per `TIME_WAIT_S`; infinite if any is free.

    Sockets in excess of `time_wait_buckets` skip TIME_WAIT, so with fewer buckets than tuples there is no bound.
    """
    tuples = ports_in(port_range) * destinations
    return tuples if time_wait_buckets >= tuples else math.inf


def shortest_s(connections: int, tuples: float) -> float:
    """The minimum time for `connections`, each of which leaves its tuple in TIME_WAIT."""
    return TIME_WAIT_S * max(0, math.ceil(connections / tuples) - 1)
