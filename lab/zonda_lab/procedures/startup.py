"""Procedures: start-up time and memory."""

from __future__ import annotations

import time

from zonda_lab import probe
from zonda_lab.errors import LabError
from zonda_lab.harness import Harness, Server, Span, set_serial
from zonda_lab.procedures.queries import warm_up
from zonda_lab.server_config import Zone
from zonda_lab.telemetry_series import Telemetry
from zonda_lab.window import Recorder, Window, memory_metrics, window_of

NEW_SERIAL = 1_000_000_002
SETTLE_S = 0.3  # after the last answer, for memory that is freed late


def startup(harness: Harness, recorder: Recorder) -> None:
    """Time from the start of the program to its first answer and to answers for all zones."""
    recorder.add(_started(harness)[1])


def memory(harness: Harness, recorder: Recorder) -> None:
    """Memory after loading, after queries, and the maximum while all zones are reloaded."""
    zones = harness.changeable_zones() if harness.settings.change.changes else None
    server, window = _started(harness, zones)
    window.within = {"state": "loaded"}
    recorder.add(window)
    with harness.span(server) as span:
        warm_up(harness, server)
    recorder.add(_state(harness, server, span, "asked"))
    if zones:
        with harness.span(server) as span:
            for zone in zones:
                set_serial(zone.file, NEW_SERIAL) if zone.file else None
            harness.reload(server)
            _wait_for_serial(harness, server)
        highest = max(_rss_mb(harness.observed(span)), default=0.0)
        reloaded = _state(harness, server, span, "reloading")
        reloaded.metrics |= {"peak_mb": highest, "reload_s": span.seconds}
        recorder.add(reloaded)


def _started(harness: Harness, zones: list[Zone] | None = None) -> tuple[Server, Window]:
    server = harness.start_server(zones)
    names = [zone.name for zone in server.config.zones]
    with harness.span(server) as span:
        first = harness.wait_ready(server, names[0])
        with harness.network.client.udp_socket(server.config.endpoint) as asking:
            arrivals = probe.watch(asking, names, harness.settings.timing.finish_s)
    time.sleep(SETTLE_S)
    last = max(arrivals.seen.values(), default=span.ended)
    metrics = {
        "first_answer_s": first,
        "all_zones_s": last - server.process.began,
        "start_cpu_s": server.process.cpu_s(),
        "zones_missing": float(len(arrivals.missing)),
    }
    window = window_of(server, span, metrics | memory_metrics(server, harness.zones.records, len(names)))
    if arrivals.missing:
        window.invalid.append(f"{len(arrivals.missing)} zones never answered, for example {arrivals.missing[0]}")
    return server, window


def _state(harness: Harness, server: Server, span: Span, state: str) -> Window:
    time.sleep(SETTLE_S)
    metrics = memory_metrics(server, harness.zones.records, len(harness.zones.zones))
    return window_of(server, span, metrics, within={"state": state})


def _wait_for_serial(harness: Harness, server: Server) -> None:
    name = server.config.zones[-1].name
    with harness.network.client.udp_socket(server.config.endpoint) as asking:
        served = probe.watch_serial(asking, name, NEW_SERIAL, harness.settings.timing.finish_s)
    if served is None:
        what = f"{server.installed.label} does not serve the changed {name} after a reload"
        raise LabError(what, detail=server.process.tail())


def _rss_mb(telemetry: Telemetry) -> list[float]:
    return [sample["processes"].get("server", {}).get("rss_kb", 0) / 1024 for sample in telemetry.samples]
