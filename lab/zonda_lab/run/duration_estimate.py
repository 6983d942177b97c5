"""Estimates the duration of a run; `Progress` corrects it while the run proceeds."""

import dataclasses
from collections.abc import Sequence

from zonda_lab.experiments.block_design import Start
from zonda_lab.measurement.load_runner import CAPACITY_S
from zonda_lab.procedures import procedure_of
from zonda_lab.run.rig_limits import WINDOW_S, is_compared, rig_key, traffic_key

START_COST_S = 0.6  # network, start and stop of the server and of telemetry
REPEATED = 0.08  # share of windows repeated on a fairly idle machine
ZONE_COST_S, RECORD_COST_S = 0.5e-3, 4e-6  # of loading zone files


def estimate_s(starts: Sequence[Start]) -> float:
    """The duration of these starts, and of the echo server before them, in seconds."""
    kinds = {(start.experiment.id, start.treatment.label): start for start in starts}
    lengths = {kind: start_s(start) for kind, start in kinds.items()}
    return _echo_s(list(kinds.values())) + sum(lengths[start.experiment.id, start.treatment.label] for start in starts)


def start_s(start: Start) -> float:
    """The duration of one start, in seconds."""
    zones, repeated = start.settings.zones, REPEATED * min(1, start.settings.timing.retries)
    loading_s = zones.zones * ZONE_COST_S + zones.expected_records * RECORD_COST_S
    return START_COST_S + procedure_of(start).estimate_s(start) * (1 + repeated) + loading_s


def _echo_s(starts: Sequence[Start]) -> float:
    """One start of the echo server for each kind of traffic that is new, and shorter windows."""
    known: set[tuple[str, str]] = set()
    length = 0.0
    for start in filter(is_compared, starts):
        traffic = map(start.settings_of, start.within)
        kinds = [(rig_key(settings), traffic_key(settings)) for settings in traffic]
        pairs = zip(start.within, kinds, strict=True)
        new = tuple(inner for inner, kind in pairs if kind not in known and not inner.copy)
        if not new:
            continue
        shorter = 1.0 if start.settings.traffic.capture else min(1.0, WINDOW_S / start.settings.timing.seconds)
        procedure = procedure_of(start)
        length += START_COST_S + CAPACITY_S + procedure.estimate_s(dataclasses.replace(start, within=new)) * shorter
        known.update(kinds)
    return length
