"""Procedures: zone changes and dynamic updates while queries are answered."""

from __future__ import annotations

import random
import time

import numpy as np

from zonda_lab import probe
from zonda_lab.errors import LabError
from zonda_lab.experiment import Settings
from zonda_lab.harness import Harness, Server, set_serial
from zonda_lab.load_generator import UpdateJob, read_summary
from zonda_lab.procedures.queries import measure_window, warm_up
from zonda_lab.procedures.startup import NEW_SERIAL
from zonda_lab.server_config import Zone
from zonda_lab.servers import Feature
from zonda_lab.window import Recorder, Window, window_of


def propagation(harness: Harness, recorder: Recorder) -> None:
    """Changes a zone file and reloads the primary: time until the secondary serves the new serial."""
    harness.require(harness.installed(harness.settings.server.name), Feature.SECONDARY)
    zones = harness.changeable_zones()
    primary = harness.start_primary(zones, notify=(harness.endpoint,))
    harness.require(primary.installed, Feature.NOTIFY)
    server = harness.start_server(harness.secondary_zones())
    harness.wait_ready(server)
    with harness.span(server) as span:
        delays = [
            _changed_ms(harness, primary, server, random.Random(i).choice(zones), NEW_SERIAL + i)
            for i in range(harness.settings.change.changes)
        ]
    metrics = {f"propagation_p{p}_ms": float(np.percentile(delays, p)) for p in (50, 99)}
    detail = {"delays_ms": [round(delay, 3) for delay in delays]}
    recorder.add(window_of(server, span, metrics, detail=detail))


def updating(harness: Harness, recorder: Recorder) -> None:
    """Windows of queries during dynamic updates; rate 0 is the control without updates."""
    server = harness.start_server(harness.changeable_zones(), updates=True)
    harness.require(server.installed, Feature.UPDATE)
    harness.wait_ready(server)
    warm_up(harness, server)
    for levels, settings in recorder.windows:
        measure = _updated_window if settings.change.updates_per_s else measure_window
        window = measure(harness, server, settings)
        window.within = levels
        recorder.add(window)


def _changed_ms(harness: Harness, primary: Server, server: Server, zone: Zone, serial: int) -> float:
    """Milliseconds from the reload until the server answers with `serial`."""
    if zone.file is None:
        raise LabError(f"{zone.name} has no file to change")
    time.sleep(random.Random(serial).uniform(0.0, 1.0))  # avoids aliasing with one-second timers
    set_serial(zone.file, serial)
    began = time.monotonic()
    harness.reload(primary)
    with harness.network.client.udp_socket(server.config.endpoint) as asking:
        served = probe.watch_serial(asking, zone.name, serial, harness.settings.timing.finish_s)
    if served is None:
        what = f"{server.installed.label} never served serial {serial} of {zone.name}"
        raise LabError(what, detail=server.process.tail())
    return (served - began) * 1000


def _updated_window(harness: Harness, server: Server, settings: Settings) -> Window:
    """One window of queries; the updates start before and end after it."""
    job = UpdateJob(
        server.config.endpoint,
        server.config.zones[0].name,
        settings.change.updates_per_s,
        settings.timing.seconds + 1.0,
        server.config.tsig,
    )
    stream = harness.start_process("updates", harness.generator.update(job))
    window = measure_window(harness, server, settings)
    stream.wait(job.seconds + 20.0)
    result = read_summary(stream.log.read_text())
    accepted = result.rcodes.get("NOERROR", 0)
    window.metrics["updates_per_s"] = accepted / result.seconds
    if accepted < result.sent:
        window.invalid.append(f"{result.sent - accepted} of {result.sent} updates failed")
    return window
