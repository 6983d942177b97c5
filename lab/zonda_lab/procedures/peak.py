"""Procedure: the peak rate for each required share of answers, by the search of the load generator."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import Settings
from zonda_lab.experiments.metrics import GOALS
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.validity import has_columns, machine_reasons, packets_miscounted
from zonda_lab.measurement.window import Recorder, Window, window_of
from zonda_lab.procedures.procedure import WINDOW_COST_S, Procedure
from zonda_lab.procedures.queries import warm_up, warm_up_estimate_s
from zonda_lab.telemetry.series import PACKETS, Telemetry

MAX_TRIALS = 400  # more than any search needs; bounds its duration
# What the records keep of a trial.
KEPT = ("rate", "since", "until", "answered", "wrong", "missed", "busy", "on_schedule", "void_because", "latency")


def peak(harness: Harness, recorder: Recorder) -> None:
    """Searches the peak rates upwards from the closed-loop capacity."""
    server = harness.start_ready_server()
    warm_up(harness, server)
    for planned in recorder.windows:
        recorder.add(searched(harness, server, planned.settings).measured_as(planned))


def searched(harness: Harness, server: Server, settings: Settings) -> Window:
    """The window of one search."""
    timing, capacity = settings.timing, max(1.0, harness.load.capacity(settings, server))
    job = harness.load.job(settings, server, rate=capacity)
    goals = [f"{goal:g}" for goal in GOALS.values()]
    longest = MAX_TRIALS * (timing.seconds + settings.traffic.timeout_ms / 1000)
    with harness.span(server) as span:
        result, trials = harness.load.find_peak(job, goals, timing.tolerance, longest)
    harness.settle_sockets(server, change=False)  # the server may have changed them meanwhile
    by_goal = {peak["percent"]: peak for peak in result.more.get("peaks", [])}
    peaks = {name: by_goal[goal] for name, goal in GOALS.items() if goal in by_goal}
    if not peaks:
        raise LabError("the peak search found no peak", detail="; ".join(result.invalid))
    metrics = {name: found["rate"] for name, found in peaks.items()} | {"capacity_qps": capacity}
    window = window_of(server, span, metrics)
    window.bounds |= harness.load.capacity_bounds(settings, server)
    at, seen = harness.observer.clock(harness.network.client), harness.observer.observed(span)
    _add_first_loss(window, trials)
    _add_cost(window, trials, seen, at)
    window.detail |= {
        "trials": [{name: trial[name] for name in KEPT if name in trial} for trial in trials],
        "sending": result.sending,
    }
    _add_peaks(window, peaks)
    deciding = [trial for trial in trials if _decides(trial, peaks)]
    spans = [(trial["rate"], at(trial["since"]), at(trial["until"])) for trial in deciding]
    window.invalid += _disturbed_trials(seen, span, spans)
    if settings.traffic.transport == "udp" and harness.network.is_isolated and has_columns(seen, PACKETS):
        window.invalid += packets_miscounted(seen, result)  # sums over all trials, as the window has no single result
    return window


def _decides(trial: dict[str, Any], peaks: dict[str, dict[str, Any]]) -> bool:
    """Whether a peak is lower because queries of this trial were lost."""
    failed = [found["failed_rate"] for found in peaks.values() if found["failed_rate"] is not None]
    is_at_limit = any(math.isclose(trial["rate"], rate) for rate in failed)
    return is_at_limit and trial["answered"] < 1 and not trial["void_because"]


def _disturbed_trials(telemetry: Telemetry, span: Span, trials: Sequence[tuple[float, float, float]]) -> list[str]:
    """Why the machine was not fit during trials (rate, start and end in s), which its mean over the search hides."""
    if len(telemetry.samples) < 2:
        return []
    unlabelled = span.own_cpu_s / span.seconds - telemetry.labelled_cores()  # of the lab itself
    found = []
    for rate, began, ended in trials:
        part = telemetry.around(began, ended)
        if len(part.samples) > 1:
            reasons = machine_reasons(part, part.seconds, part.labelled_cores() + max(0.0, unlabelled))
            found += [f"trial at {rate:,.0f} queries per second: {reason}" for reason in reasons]
    return found


def _add_cost(window: Window, trials: Sequence[dict[str, Any]], seen: Telemetry, at: Callable[[int], float]) -> None:
    """The CPU time per answer in the last trial at the highest rate with all queries answered."""
    answered = [trial for trial in trials if trial["answered"] >= 1 and not trial["void_because"]]
    passed = [trial for trial in answered if math.isclose(trial["rate"], window.metrics.get("peak_100_qps", 0.0))]
    if not passed:
        return
    part = seen.between(at(passed[-1]["since"]), at(passed[-1]["until"]))
    if used := part.mean_cores("server"):
        window.metrics["answers_per_cpu_s"] = passed[-1]["rate"] / used
        window.metrics["cpu_us_per_query"] = used * 1e6 / passed[-1]["rate"]


def _add_first_loss(window: Window, trials: Sequence[dict[str, Any]]) -> None:
    """The lowest rate with a lost query; without a loss the highest rate that was tried."""
    counted = [trial for trial in trials if not trial["void_because"]]
    lossy = [trial["rate"] for trial in counted if trial["answered"] < 1]
    if counted:
        window.metrics["first_loss_qps"] = min(lossy, default=max(trial["rate"] for trial in counted))


def _add_peaks(window: Window, peaks: dict[str, dict[str, Any]]) -> None:
    """The interval of each peak; whether it is only a bound follows from the trials when it is read."""
    window.detail["peaks"] = {
        name: {"passed": found["rate"], "failed": found["failed_rate"], "failure": found["failure"]}
        for name, found in peaks.items()
    }
    if wrong := sorted(found["failed_rate"] for found in peaks.values() if found["failure"] == "wrong"):
        window.notes.append(f"answers are wrong from {wrong[0]:,.0f} queries per second on, which ends the search")
        if not any(found["rate"] for found in peaks.values()):
            window.invalid.append("answers are wrong at every rate")


def estimate_s(start: Start) -> float:
    """Two trials per rate: some upwards, then a bisection that is mostly shared by the goals."""
    settings = start.settings
    trial = settings.timing.seconds + settings.traffic.timeout_ms / 2000
    rates = 4 + math.log2(max(2.0, math.log(2) / math.log1p(settings.timing.tolerance)))
    windows = len(start.within) * (2 * rates * trial + settings.timing.seconds + WINDOW_COST_S)
    return warm_up_estimate_s(settings) + windows


PROCEDURE = Procedure(
    peak,
    (*GOALS, "first_loss_qps", "cpu_us_per_query", "answers_per_cpu_s", "capacity_qps", "echo_qps", "generator_qps"),
    estimate_s,
    is_timed=True,
    uses_echo=True,
)
