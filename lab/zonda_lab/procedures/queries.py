"""Procedure: windows of query load on one running server."""

from __future__ import annotations

from zonda_lab.errors import UnsupportedError
from zonda_lab.experiment import Settings
from zonda_lab.harness import Harness, Server
from zonda_lab.window import Recorder, Window, memory_metrics, query_metrics, window_of


def queries(harness: Harness, recorder: Recorder) -> None:
    """Measures one window per level within the start, after a warm-up."""
    server = harness.start_server()
    harness.wait_ready(server)
    warm_up(harness, server)
    for levels, settings in recorder.windows:
        try:
            _repeated(harness, server, settings, levels, recorder)
        except UnsupportedError as error:
            recorder.skip(str(error), levels)


def _repeated(harness: Harness, server: Server, settings: Settings, levels: dict[str, str], recorder: Recorder) -> None:
    """Measures a window, and repeats it if it is invalid."""
    for attempt in range(settings.timing.retries + 1):
        window = measure_window(harness, server, settings)
        window.within = levels
        if recorder.add(window, attempt):
            return


def warm_up(harness: Harness, server: Server) -> None:
    """Sends load that is not measured."""
    timing = harness.settings.timing
    if timing.warm_up_s:
        harness.load(harness.job(harness.settings, server, seconds=timing.warm_up_s))


def measure_window(harness: Harness, server: Server, settings: Settings, rate: float | None = None) -> Window:
    """Measures one window of queries; `rate` overrides the settings."""
    job = harness.job(settings, server, rate=rate)
    with harness.span(server) as span:
        result = harness.load(job)
    offered = job.rate if settings.traffic.loop == "open" else None
    metrics = (
        query_metrics(result, span, offered) | memory_metrics(server, 0, 0) | {"first_answer_s": server.first_answer_s}
    )
    if isinstance(settings.traffic.rate, str):
        metrics["capacity_qps"] = harness.capacity(settings, server)
    return window_of(server, span, metrics, result=result)
