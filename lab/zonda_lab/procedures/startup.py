"""Procedures: start-up time and memory."""

import time

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import Start
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.window import Recorder, Window, memory_metrics, window_of
from zonda_lab.procedures.procedure import MEMORY_OF_ZONES, Procedure
from zonda_lab.procedures.queries import warm_up, warm_up_estimate_s
from zonda_lab.servers.config import Zone
from zonda_lab.zones.zonegen import set_serial

NEW_SERIAL = 1_000_000_002
STOP_S = 30.0  # for a server that stores its data when it stops
RELOAD_COST_S = 4e-6  # of loading a record again
SETTLE_S = 0.3  # after the last answer, for memory that is freed late


def startup(harness: Harness, recorder: Recorder) -> None:
    """Time from the start of the program to its first answer and to answers for all zones, and the same again."""
    server, window = _started(harness)
    server.process.stop(STOP_S)
    names = [zone.name for zone in server.config.zones]
    probe = harness.start_probe(names, harness.settings.timing.finish_s)
    with harness.span() as restart:
        again = harness.start_server()
        arrivals = harness.arrivals(probe, again)
    window.later["restart"] = restart
    if arrivals.missing:
        window.invalid.append(f"{arrivals.missing} of {len(names)} zones not answered after a restart")
    else:
        window.metrics["restart_s"] = max(arrivals.seen.values()) - again.process.began
    recorder.add(window)


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
        name = zones[-1].name
        probe = harness.start_probe([name], harness.settings.timing.finish_s, NEW_SERIAL)
        with harness.span(server) as span:
            for file in filter(None, (zone.file for zone in zones)):
                set_serial(file, NEW_SERIAL)
            asked = harness.reload(server)
            arrivals = harness.arrivals(probe, server)
        if arrivals.missing:
            what = f"{server.installed.label} does not serve the changed {name} after a reload"
            raise LabError(what, detail=server.process.tail())
        samples = harness.observer.observed(span).samples
        resident_kb = [sample["processes"].get("server", {}).get("rss_kb", 0) for sample in samples]
        reloaded = _state(harness, server, span, "reloading")
        reloaded.metrics |= {"peak_mb": max(resident_kb, default=0) / 1024, "reload_s": arrivals.seen[name] - asked}
        recorder.add(reloaded)


def _started(harness: Harness, zones: list[Zone] | None = None) -> tuple[Server, Window]:
    names = [zone.name for zone in zones or harness.zones.zones]
    probe = harness.start_probe(names, harness.settings.timing.finish_s)
    with harness.span() as span:
        server = harness.start_server(zones)
        arrivals = harness.arrivals(probe, server)
    if not arrivals.seen:
        raise LabError(f"{server.installed.label} never answered", detail=f"its log ends: {server.process.tail()}")
    time.sleep(SETTLE_S)
    harness.settle_sockets(server)
    server.first_answer_s = min(arrivals.seen.values()) - server.process.began
    metrics = {
        "first_answer_s": server.first_answer_s,
        "all_zones_s": max(arrivals.seen.values()) - server.process.began,
        "start_cpu_s": span.server_cpu_s,
        "zones_missing": float(arrivals.missing),
    }
    metrics |= memory_metrics(server, record=harness.zones.records, zone=len(names))
    window = window_of(server, span, metrics)
    if arrivals.missing:
        window.invalid.append(f"{arrivals.missing} of {len(names)} zones never answered")
    return server, window


def _state(harness: Harness, server: Server, span: Span, state: str) -> Window:
    time.sleep(SETTLE_S)
    metrics = memory_metrics(server, record=harness.zones.records, zone=len(harness.zones.zones))
    return window_of(server, span, metrics, within={"state": state})


def startup_estimate_s(start: Start) -> float:
    """The second start, after the first has loaded the zones."""
    return 0.4 + SETTLE_S + start.settings.zones.expected_records * RELOAD_COST_S


def memory_estimate_s(start: Start) -> float:
    """Queries and a reload."""
    reload_s = start.settings.zones.expected_records * RELOAD_COST_S if start.settings.change.changes else 0.0
    return warm_up_estimate_s(start.settings) + 1.5 + reload_s


STARTED = ("first_answer_s", "all_zones_s", "start_cpu_s", "zones_missing")
STARTUP = Procedure(startup, (*STARTED, "restart_s", *MEMORY_OF_ZONES), startup_estimate_s)
MEMORY = Procedure(memory, (*STARTED, *MEMORY_OF_ZONES, "reload_s"), memory_estimate_s)
