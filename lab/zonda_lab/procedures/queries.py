"""Procedure: windows of query load on one running server."""

import dataclasses
from collections.abc import Sequence

from zonda_lab.errors import UnsupportedError
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import Settings
from zonda_lab.experiments.metrics import OF_MEMORY, OF_QUERIES
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.load_runner import CAPACITY_S, OF_ECHO
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.validity import rig_bound
from zonda_lab.measurement.window import PlannedWindow, Recorder, Window, memory_metrics, query_metrics, window_of
from zonda_lab.procedures.procedure import WINDOW_COST_S, Procedure


def queries(harness: Harness, recorder: Recorder) -> None:
    """Measures one window per level within the start, after a warm-up."""
    server = harness.start_ready_server()
    warm_up(harness, server)
    for planned in recorder.windows:
        try:
            _repeated(harness, server, planned, recorder)
        except UnsupportedError as error:
            recorder.skip(str(error), planned)


def _repeated(harness: Harness, server: Server, planned: PlannedWindow, recorder: Recorder) -> None:
    """Measures a window, and repeats it if it is invalid."""
    for attempt in range(planned.settings.timing.retries + 1):
        window = measure_window(harness, server, planned.settings)
        if recorder.add(window.measured_as(planned), attempt):
            return


def warm_up(harness: Harness, server: Server) -> None:
    """Sends load that is not measured.

    If the rate is a share of the capacity of the start, that is measured afterwards, so this is a closed loop.
    """
    settings = harness.settings
    if not settings.timing.warm_up_s or settings.traffic.capture:
        return
    if is_relative(settings):
        harness.load.closed_loop(settings, server, settings.timing.warm_up_s)
    else:
        harness.load.run(harness.load.job(settings, server, seconds=settings.timing.warm_up_s))


def measure_window(harness: Harness, server: Server, settings: Settings) -> Window:
    """Measures one window of queries."""
    job = harness.load.job(settings, server)
    with harness.span(server) as span, server.paused(settings.change.pause_ms / 1000, job.seconds / 2):
        result = harness.load.run(job)
    harness.settle_sockets(server, change=False)  # the server may have changed them meanwhile
    is_open = settings.traffic.loop == "open" and not settings.traffic.capture
    metrics = query_metrics(result, span, job.mean_rate if is_open else None)
    metrics |= memory_metrics(server) | {"first_answer_s": server.first_answer_s}
    window = window_of(server, span, metrics, result=result, load_s=result.seconds)
    if is_relative(settings):
        window.metrics["capacity_qps"] = harness.load.capacity(settings, server)
        window.bounds |= harness.load.capacity_bounds(settings, server)
    window.detail["sending"] = result.sending
    if job.is_ramp:
        _add_ramp(window, result.ramp)
    if bound := rig_bound(result, settings.traffic.loop == "closed"):
        window.rig_bound = bound
        window.bounds["answered_qps"] = "at least"
    return window


def _add_ramp(window: Window, ramp: Sequence[tuple[float, float]]) -> None:
    """The share answered at each rate of a ramp, and the lowest rate with a lost query."""
    window.detail["ramp"] = ramp
    if lossy := [rate for rate, answered in ramp if answered < 1]:
        window.metrics["first_loss_qps"] = min(lossy)
    elif ramp:
        window.metrics["first_loss_qps"] = max(rate for rate, _ in ramp)
        window.bounds["first_loss_qps"] = "at least"


def is_relative(settings: Settings) -> bool:
    """Whether the rate is a share of the capacity of the start."""
    rate = settings.traffic.rate
    return isinstance(rate, str) and not rate.endswith(OF_ECHO)


def warm_up_estimate_s(settings: Settings) -> float:
    """How long the warm-up takes."""
    return settings.timing.warm_up_s + WINDOW_COST_S if settings.timing.warm_up_s else 0.0


def capacity_estimate_s(start: Start) -> float:
    """The closed-loop window needed if a rate is a share of the capacity."""
    needed = any(is_relative(start.settings_of(inner)) for inner in start.within)
    return min(CAPACITY_S, start.settings.timing.seconds) + WINDOW_COST_S if needed else 0.0


def estimate_s(start: Start) -> float:
    """One window per level, and what precedes them."""
    windows = len(start.within) * (_window_s(start.settings) + WINDOW_COST_S)
    return warm_up_estimate_s(start.settings) + windows + capacity_estimate_s(start)


def _window_s(settings: Settings) -> float:
    """The length of a window; a capture of unknown length is taken for a minute."""
    return 60.0 / settings.traffic.speed if settings.traffic.capture else settings.timing.seconds


QUERIES = Procedure(
    queries,
    (*OF_QUERIES, *OF_MEMORY, "first_answer_s", "first_loss_qps"),
    estimate_s,
    retries_itself=True,
    is_timed=True,
    uses_echo=True,
)
# Without an echo server: if every treatment changes the rig, the echo would be measured again for each of them.
QUERIES_ALONE = dataclasses.replace(QUERIES, uses_echo=False)
