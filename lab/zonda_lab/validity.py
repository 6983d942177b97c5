"""May a window be believed? The rules were fixed before anything was measured; what breaks one is kept, marked.

Queries that leave a millisecond late spoil what is told of latency, but neither rates nor CPU time: such a window is
kept for all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonda_lab.load_generator import LoadResult
from zonda_lab.telemetry_series import Telemetry, net

ACHIEVED = 0.999  # of the schedule must have been sent
SCHEDULE_ERROR = 0.10  # of the median latency, at the generator's 99th percentile
SCHEDULE_FLOOR_US = 100.0  # below this no schedule error matters: a timer is not better
SCHEDULE_OF_WINDOW = 0.02  # of the window: queries so late are no longer those of its rate
LATE_SENDS = "queries left more than 1 ms after their time"  # words of zonda-load
STEAL = 0.01  # of all CPU time taken by the hypervisor
FOREIGN_CORES = 0.10  # used by programs that are not part of the experiment
IO_PRESSURE = 0.05  # of the time something waited for a disk
LATE_SAMPLE_S = 0.5  # telemetry this far behind its beat was starved, and so was the generator
DISTURBANCES = (  # words of the reasons that another program on the machine can bring about
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
    """What the rules look at."""

    telemetry: Telemetry
    seconds: float
    own_cores: float
    result: LoadResult | None
    died: bool
    latency_p50_us: float | None = None


def reasons(window: ValidityInput) -> list[str]:
    """Why the window is invalid; nothing if it is valid."""
    found = [] if not window.died else ["the server died"]
    if window.result is not None:
        found += _generator(window, window.result)
        found += _lateness(window, window.result) if _is_off_its_rate(window.result) else []
    return found + machine_reasons(window.telemetry, window.seconds, window.own_cores)


def latency_reasons(window: ValidityInput) -> list[str]:
    """Why its latencies are invalid, even if the window is not; reasons that make all of it so are not among them."""
    if window.result is None or _is_off_its_rate(window.result):
        return []
    return _lateness(window, window.result)


def disturbed(found: Sequence[str]) -> bool:
    """Was it only the machine that was not quiet? Then a window shows that something works, but not how well."""
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
    """Why a machine was not fit to measure meanwhile: any that takes part, the server's or a player's."""
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
