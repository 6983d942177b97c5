"""What a server needs before it serves: time and memory."""

from __future__ import annotations

import time

from zonda_lab import probe
from zonda_lab.errors import LabError
from zonda_lab.model import Zone
from zonda_lab.outcome import Outcome, Recorder, memory_metrics
from zonda_lab.procedures.queries import warm_up
from zonda_lab.series import Telemetry
from zonda_lab.stage import Server, Span, Stage, set_serial

NEW_SERIAL = 1_000_000_002
SETTLE_S = 0.3  # after the last answer: what is freed lazily is freed by then


def startup(stage: Stage, recorder: Recorder) -> None:
    """From the start of the program to its first answer and until every zone has been answered."""
    recorder.add(_started(stage)[1])


def memory(stage: Stage, recorder: Recorder) -> None:
    """At rest after loading, after a warm-up of queries, and at its highest while all zones are read again."""
    zones = stage.changeable_zones() if stage.settings.change.changes else None
    server, outcome = _started(stage, zones)
    outcome.within = {"state": "loaded"}
    recorder.add(outcome)
    with stage.span(server) as span:
        warm_up(stage, server)
    recorder.add(_state(stage, server, span, "asked"))
    if zones:
        with stage.span(server) as span:
            for zone in zones:
                set_serial(zone.file, NEW_SERIAL) if zone.file else None
            stage.reload(server)
            _wait_for_serial(stage, server)
        highest = max(_rss_mb(stage.observed(span)), default=0.0)
        reloaded = _state(stage, server, span, "reloading")
        reloaded.metrics |= {"peak_mb": highest, "reload_s": span.seconds}
        recorder.add(reloaded)


def _started(stage: Stage, zones: list[Zone] | None = None) -> tuple[Server, Outcome]:
    server = stage.start_server(zones)
    names = [zone.name for zone in server.setup.zones]
    with stage.span(server) as span:
        first = stage.wait_ready(server, names[0])
        with stage.rig.client.udp_socket(server.setup.endpoint) as asking:
            arrivals = probe.watch(asking, names, stage.settings.timing.finish_s)
    time.sleep(SETTLE_S)
    last = max(arrivals.seen.values(), default=span.ended)
    metrics = {
        "first_answer_s": first,
        "all_zones_s": last - server.process.began,
        "start_cpu_s": server.process.cpu_s(),
        "zones_missing": float(len(arrivals.missing)),
    }
    outcome = Outcome(
        span, metrics | memory_metrics(server, stage.zones.records, len(names)), died=not server.process.alive
    )
    if arrivals.missing:
        outcome.invalid.append(f"{len(arrivals.missing)} zones were never answered, {arrivals.missing[0]} among them")
    return server, outcome


def _state(stage: Stage, server: Server, span: Span, state: str) -> Outcome:
    time.sleep(SETTLE_S)
    metrics = memory_metrics(server, stage.zones.records, len(stage.zones.zones))
    return Outcome(span, metrics, within={"state": state}, died=not server.process.alive)


def _wait_for_serial(stage: Stage, server: Server) -> None:
    name = server.setup.zones[-1].name
    with stage.rig.client.udp_socket(server.setup.endpoint) as asking:
        arrivals = probe.watch(
            asking, [name], stage.settings.timing.finish_s, lambda reply: probe.serial(reply) == NEW_SERIAL
        )
    if arrivals.missing:
        raise LabError(
            f"{server.installed.label} does not serve the changed {name} after a reload", server.process.tail()
        )


def _rss_mb(telemetry: Telemetry) -> list[float]:
    return [sample["processes"].get("server", {}).get("rss_kb", 0) / 1024 for sample in telemetry.samples]
