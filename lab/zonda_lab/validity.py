"""Validity rules for windows, fixed before measuring. Invalid windows stay in the records, marked.

Queries sent a millisecond late invalidate latencies, but neither rates nor CPU time: such a window remains valid for
all other metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonda_lab.load_generator import LoadResult
from zonda_lab.telemetry_series import Telemetry, net

ACHIEVED = 0.999  # share of the scheduled queries that must be sent
SCHEDULE_ERROR = 0.10  # maximum 99th percentile schedule error, as a share of the median latency
SCHEDULE_FLOOR_US = 100.0  # schedule errors below this timer precision are accepted
SCHEDULE_OF_WINDOW = 0.02  # share of the window; with a larger schedule error the rate is wrong as well
LATE_SENDS = "queries left more than 1 ms after their time"  # text printed by zonda-load
STEAL = 0.01  # share of CPU time taken by the hypervisor
FOREIGN_CORES = 0.10  # CPUs used by programs outside the experiment
IO_PRESSURE = 0.05  # share of the time with a task waiting for I/O
LATE_SAMPLE_S = 0.5  # with telemetry this late, the generator was starved as well
DISTURBANCES = (  # parts of the reasons that other load on the machine can cause
    "the hypervisor took",
    "other programs used",
    "something waited for a disk",
    "telemetry came",
    "no telemetry",
    "the generator was",
    "the generator sent",
    "scheduled queries were never sent",
    LATE_SENDS,
)


@dataclass(frozen=True)
class ValidityInput:
    """The evidence that the rules check."""

    telemetry: Telemetry
    seconds: float
    own_cores: float
    result: LoadResult | None
    died: bool
    latency_p50_us: float | None = None


def reasons(window: ValidityInput) -> list[str]:
    """Why the window is invalid; empty if it is valid."""
    found = [] if not window.died else ["the server died"]
    if window.result is not None:
        found += _generator(window, window.result)
        found += _lateness(window, window.result) if _is_off_its_rate(window.result) else []
    return found + machine_reasons(window.telemetry, window.seconds, window.own_cores)


def latency_reasons(window: ValidityInput) -> list[str]:
    """Why only the latencies of the window are invalid."""
    if window.result is None or _is_off_its_rate(window.result):
        return []
    return _lateness(window, window.result)


def disturbed(found: Sequence[str]) -> bool:
    """Whether other load on the machine explains all reasons."""
    return bool(found) and all(any(words in reason for words in DISTURBANCES) for reason in found)


def _generator(window: ValidityInput, result: LoadResult) -> list[str]:
    found = [reason for reason in result.invalid if LATE_SENDS not in reason]
    if result.wrong:
        examples = f" ({'; '.join(result.wrong_examples[:2])})" if result.wrong_examples else ""
        found.append(f"{result.wrong} of {result.answered} answers are wrong{examples}")
    if result.scheduled and result.sent < ACHIEVED * result.scheduled:
        found.append(f"the generator sent {result.sent / result.scheduled:.2%} of its schedule")
    if window.telemetry.grown(net("client", "Udp.RcvbufErrors")):
        found.append("the generator lost answers: its socket buffers overflowed")
    return found


def _lateness(window: ValidityInput, result: LoadResult) -> list[str]:
    found = [reason for reason in result.invalid if LATE_SENDS in reason]
    limit = max(SCHEDULE_FLOOR_US, SCHEDULE_ERROR * (window.latency_p50_us or 0))
    if result.schedule_error_p99_us is not None and result.schedule_error_p99_us > limit:
        off = f"{result.schedule_error_p99_us:.0f} µs off its schedule (99 %)"
        found.append(f"the generator was {off}, {limit:.0f} µs are allowed")
    return found


def _is_off_its_rate(result: LoadResult) -> bool:
    return (result.schedule_error_p99_us or 0.0) / 1e6 > SCHEDULE_OF_WINDOW * result.seconds


def machine_reasons(telemetry: Telemetry, seconds: float, own_cores: float) -> list[str]:
    """Why a machine (the server's or a player's) was not fit for measurements during the window."""
    found = []
    if len(telemetry.samples) < 2:
        return ["no telemetry"] if seconds > 0.5 else []
    if (steal := telemetry.cpu_share("steal")) > STEAL:
        found.append(f"the hypervisor took {steal:.1%} of the CPU time")
    if (foreign := telemetry.busy_cores() - own_cores) > FOREIGN_CORES:
        found.append(f"other programs used {foreign:.2f} CPUs")
    if (waiting := telemetry.grown(lambda sample: sample["psi"]["io"]) / 1e6 / seconds) > IO_PRESSURE:
        found.append(f"something waited for a disk {waiting:.0%} of the time")
    if (late := float(telemetry.gauge(lambda sample: sample["late"]).max()) / 1e9) > LATE_SAMPLE_S:
        found.append(f"telemetry came {late:.1f} s late")
    return found
