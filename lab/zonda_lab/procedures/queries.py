"""Windows of load on one running server."""

from __future__ import annotations

from zonda_lab.errors import UnsupportedError
from zonda_lab.experiment import Settings
from zonda_lab.outcome import Outcome, Recorder, memory_metrics, query_metrics
from zonda_lab.stage import Server, Stage


def queries(stage: Stage, recorder: Recorder) -> None:
    """One window for each level within the start, in the order of the plan, after a warm-up."""
    server = stage.start_server()
    stage.wait_ready(server)
    warm_up(stage, server)
    for levels, settings in recorder.windows:
        try:
            _repeated(stage, server, settings, levels, recorder)
        except UnsupportedError as error:
            recorder.skip(str(error), levels)


def _repeated(stage: Stage, server: Server, settings: Settings, levels: dict[str, str], recorder: Recorder) -> None:
    """A window, again if it does not count."""
    for attempt in range(settings.timing.retries + 1):
        outcome = window(stage, server, settings)
        outcome.within = levels
        if recorder.add(outcome, attempt):
            return


def warm_up(stage: Stage, server: Server) -> None:
    """Load that is in no figure: caches fill, lazy work is done."""
    timing = stage.settings.timing
    if timing.warm_up_s:
        stage.load(stage.job(stage.settings, server, seconds=timing.warm_up_s))


def window(stage: Stage, server: Server, settings: Settings, rate: float | None = None) -> Outcome:
    """One window of queries; `rate` overrides that of the settings."""
    job = stage.job(settings, server, rate=rate)
    with stage.span(server) as span:
        result = stage.load(job)
    offered = job.rate if settings.traffic.loop == "open" else None
    metrics = (
        query_metrics(result, span, offered) | memory_metrics(server, 0, 0) | {"first_answer_s": server.first_answer_s}
    )
    if isinstance(settings.traffic.rate, str):
        metrics["capacity_qps"] = stage.capacity(settings, server)
    return Outcome(span, metrics, result, died=not server.process.alive)
