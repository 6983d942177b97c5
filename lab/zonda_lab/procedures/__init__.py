"""How a start is measured: one procedure a kind of experiment."""

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
    """A way to measure a start; `retries_itself` if it repeats invalid windows within the start."""

    run: Callable[[Harness, Recorder], None]
    what: str
    retries_itself: bool = False


PROCEDURES: dict[str, Procedure] = {
    "queries": Procedure(queries, "windows of load on one server, one for each level within the start", True),
    "peak": Procedure(peak, "the highest rates with 100, 99.99, 99.9 and 99 % answered, by noisy bisection", True),
    "startup": Procedure(startup, "time to the first answer and to all zones"),
    "memory": Procedure(memory, "memory at rest, under load and during a reload"),
    "secondary": Procedure(secondary, "a secondary without data transfers every zone from its primary"),
    "pull": Procedure(pull, "a null secondary reads every zone from the server"),
    "idle": Procedure(idle, "idle connections are opened and held: memory, rate, latency of a probe meanwhile"),
    "descriptors": Procedure(
        descriptors, "more connections than the server has descriptors: is UDP served, does TCP come back?"
    ),
    "propagation": Procedure(propagation, "a zone changes at the primary: time until the secondary answers with it"),
    "updating": Procedure(updating, "queries while the zone changes by dynamic updates"),
}

__all__ = ["PROCEDURES", "Procedure"]
