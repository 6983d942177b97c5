"""Measurement procedures, chosen by name in the experiment file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zonda_lab.harness import Harness
from zonda_lab.procedures.changes import propagation, updating
from zonda_lab.procedures.connections import descriptors, idle
from zonda_lab.procedures.peak import peak
from zonda_lab.procedures.queries import queries
from zonda_lab.procedures.startup import memory, startup
from zonda_lab.procedures.transfers import pull, secondary
from zonda_lab.window import Recorder


@dataclass(frozen=True)
class Procedure:
    """A way to measure a start; `retries_itself` if it repeats invalid windows itself."""

    run: Callable[[Harness, Recorder], None]
    what: str
    retries_itself: bool = False


PROCEDURES: dict[str, Procedure] = {
    "queries": Procedure(queries, "windows of query load, one per level varied within the start", True),
    "peak": Procedure(
        peak, "the highest rates with 100, 99.99, 99.9 and 99 % answered, by bisection with repeated trials", True
    ),
    "startup": Procedure(startup, "time to the first answer and to answers for all zones"),
    "memory": Procedure(memory, "memory when idle, under load and during a reload"),
    "secondary": Procedure(secondary, "an empty secondary transfers every zone from its primary"),
    "pull": Procedure(pull, "a client transfers every zone from the server and discards it"),
    "idle": Procedure(idle, "idle connections: memory, accept rate, latency of UDP probes meanwhile"),
    "descriptors": Procedure(
        descriptors, "more connections than file descriptors: UDP service meanwhile, recovery of TCP"
    ),
    "propagation": Procedure(propagation, "a zone changes on the primary: time until the secondary serves it"),
    "updating": Procedure(updating, "query load during dynamic updates"),
}

__all__ = ["PROCEDURES", "Procedure"]
