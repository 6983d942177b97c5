"""Measurement procedures, chosen by name in the experiment file."""

from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import ProcedureName
from zonda_lab.procedures import changes, connections, peak, queries, startup, storms, transfers
from zonda_lab.procedures.procedure import Procedure

PROCEDURES: dict[ProcedureName, Procedure] = {
    "queries": queries.QUERIES,
    "queries-alone": queries.QUERIES_ALONE,
    "peak": peak.PROCEDURE,
    "startup": startup.STARTUP,
    "memory": startup.MEMORY,
    "secondary": transfers.SECONDARY,
    "pull": transfers.PULL,
    "idle": connections.IDLE,
    "descriptors": connections.DESCRIPTORS,
    "storm": storms.STORM,
    "vanishing": storms.VANISHING,
    "propagation": changes.PROPAGATION,
    "updating": changes.UPDATING,
    "receiving": changes.RECEIVING,
}


def procedure_of(start: Start) -> Procedure:
    """The procedure of a start: that of its combination of levels, or of the experiment."""
    combination = start.experiment.combination(start.treatment.levels)
    own = combination.procedure if combination else ""
    return PROCEDURES[own or start.experiment.definition.procedure]


__all__ = ["PROCEDURES", "Procedure", "procedure_of"]
