"""Estimates the duration of a run; `Progress` corrects it while the run proceeds."""

from __future__ import annotations

from collections.abc import Sequence

from zonda_lab.experiments.block_design import Start
from zonda_lab.procedures import PROCEDURES

START_COST_S = 0.6  # network, start and stop of the server and of telemetry
REPEATED = 0.08  # share of windows repeated on a fairly idle machine
ZONE_COST_S, RECORD_COST_S = 0.5e-3, 4e-6


def estimate_s(starts: Sequence[Start]) -> float:
    """The duration of these starts, in seconds."""
    kinds = {(start.experiment.id, start.treatment.label): start for start in starts}
    lengths = {kind: _start_s(start) for kind, start in kinds.items()}
    return sum(lengths[start.experiment.id, start.treatment.label] for start in starts)


def _start_s(start: Start) -> float:
    settings, procedure = start.settings, PROCEDURES[start.experiment.definition.procedure]
    return (
        START_COST_S
        + procedure.estimate_s(start) * (1 + REPEATED * min(1, settings.timing.retries))
        + settings.zones.zones * ZONE_COST_S
        + settings.zones.zones * settings.zones.records * RECORD_COST_S
    )
