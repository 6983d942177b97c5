"""Measurement procedures, chosen by name in the experiment file."""

from zonda_lab.procedures import changes, connections, peak, queries, startup, transfers
from zonda_lab.procedures.procedure import Procedure

PROCEDURES: dict[str, Procedure] = {
    "queries": queries.PROCEDURE,
    "peak": peak.PROCEDURE,
    "startup": startup.STARTUP,
    "memory": startup.MEMORY,
    "secondary": transfers.SECONDARY,
    "pull": transfers.PULL,
    "idle": connections.IDLE,
    "descriptors": connections.DESCRIPTORS,
    "propagation": changes.PROPAGATION,
    "updating": changes.UPDATING,
    "receiving": changes.RECEIVING,
}

__all__ = ["PROCEDURES", "Procedure"]
