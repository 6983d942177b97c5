"""Estimates the duration of a run; `Progress` corrects it while the run proceeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zonda_lab.block_design import Start
from zonda_lab.experiment import Settings
from zonda_lab.harness import CAPACITY_S
from zonda_lab.port_exhaustion import port_bound
from zonda_lab.procedures.peak import STEP

START_COST_S, WINDOW_COST_S = 0.4, 0.1  # network, server start and stop; generator start and stop
REPEATED = 0.08  # share of windows repeated on a fairly idle machine
ZONE_COST_S, RECORD_COST_S = 0.5e-3, 4e-6
ACCEPTED_PER_S = 3_000  # connections, by a slow server
PORTS = "32768 60999"  # of Linux; `rig.sysctl` may say otherwise


def estimate_s(starts: Sequence[Start]) -> float:
    """The duration of these starts, in seconds."""
    kinds = {(start.experiment.id, start.treatment.label): start for start in starts}
    lengths = {kind: _start_s(start) for kind, start in kinds.items()}
    return sum(lengths[start.experiment.id, start.treatment.label] for start in starts)


def _start_s(start: Start) -> float:
    settings, procedure = start.settings, start.experiment.definition.procedure
    timing, change = settings.timing, settings.change
    window = timing.seconds + WINDOW_COST_S
    warm_up = timing.warm_up_s + WINDOW_COST_S if timing.warm_up_s else 0.0
    asked = len(start.within) * window + _capacity_s(start)
    held = change.hold_s + change.connections / min(change.connect_rate, ACCEPTED_PER_S)
    half_lossy = window + settings.traffic.timeout_ms / 2000
    work = {
        "queries": warm_up + asked,
        "updating": warm_up + asked + 0.5 * len(start.within),
        "peak": warm_up + window + _peak_windows(timing.tolerance) * half_lossy,
        "memory": warm_up + 1.0,
        "startup": 0.4,
        "secondary": 0.4 + _waiting_s(settings),
        "pull": 0.2,
        "idle": held,
        "descriptors": held + 2.5,
        "propagation": 0.5 + change.changes,
    }.get(procedure, 1.0)
    return (
        START_COST_S
        + work * (1 + REPEATED * min(1, timing.retries))
        + settings.zones.zones * ZONE_COST_S
        + settings.zones.zones * settings.zones.records * RECORD_COST_S
    )


def _peak_windows(tolerance: float) -> float:
    """Two trials per rate: three rates going down, then a bisection mostly shared by all goals."""
    return 2 * (3 + math.log2(max(1.0, math.log(STEP) / math.log1p(tolerance))))


def _capacity_s(start: Start) -> float:
    """The closed-loop window needed if a rate is a share of the capacity."""
    needed = any(isinstance(start.settings_of(inner).traffic.rate, str) for inner in start.within)
    return min(CAPACITY_S, start.settings.timing.seconds) + WINDOW_COST_S if needed else 0.0


def _waiting_s(settings: Settings) -> float:
    """How long a secondary waits for local ports."""
    spec, sysctl = settings.primary, settings.rig.sysctl
    low, high = map(int, str(sysctl.get("net.ipv4.ip_local_port_range", PORTS)).split())
    buckets = float(sysctl.get("net.ipv4.tcp_max_tw_buckets", math.inf))
    bound = port_bound((low, high), destinations=spec.addresses, time_wait_buckets=buckets)
    return min(settings.timing.finish_s, bound.seconds(settings.zones.zones))
