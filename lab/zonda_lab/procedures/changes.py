"""Zones that change while they are served."""

from __future__ import annotations

import random
import time

import numpy as np

from zonda_lab import probe
from zonda_lab.errors import LabError
from zonda_lab.experiment import Settings
from zonda_lab.load import UpdateJob, read_summary
from zonda_lab.model import Zone
from zonda_lab.outcome import Outcome, Recorder
from zonda_lab.procedures.queries import warm_up, window
from zonda_lab.procedures.startup import NEW_SERIAL
from zonda_lab.servers import Feature
from zonda_lab.stage import Server, Stage, set_serial


def propagation(stage: Stage, recorder: Recorder) -> None:
    """A zone file changes at the primary, which reloads: the time until the secondary serves the new serial."""
    stage.require(stage.installed(stage.settings.server.name), Feature.SECONDARY)
    zones = stage.changeable_zones()
    primary = stage.start_primary(zones, notify=(stage.endpoint,))
    stage.require(primary.installed, Feature.NOTIFY)
    server = stage.start_server(stage.secondary_zones())
    stage.wait_ready(server)
    with stage.span(server) as span:
        delays = [
            _changed_ms(stage, primary, server, random.Random(i).choice(zones), NEW_SERIAL + i)
            for i in range(stage.settings.change.changes)
        ]
    metrics = {f"propagation_p{p}_ms": float(np.percentile(delays, p)) for p in (50, 99)}
    recorder.add(
        Outcome(
            span, metrics, detail={"delays_ms": [round(delay, 3) for delay in delays]}, died=not server.process.alive
        )
    )


def updating(stage: Stage, recorder: Recorder) -> None:
    """The windows of `queries` while updates stream in; the same windows without them are the level of rate 0."""
    server = stage.start_server(stage.changeable_zones(), updates=True)
    stage.require(server.installed, Feature.UPDATE)
    stage.wait_ready(server)
    warm_up(stage, server)
    for levels, settings in recorder.windows:
        outcome = (
            _updated_window(stage, server, settings)
            if settings.change.updates_per_s
            else window(stage, server, settings)
        )
        outcome.within = levels
        recorder.add(outcome)


def _changed_ms(stage: Stage, primary: Server, server: Server, zone: Zone, serial: int) -> float:
    """Milliseconds from the reload until `serial` is answered."""
    if zone.file is None:
        raise LabError(f"{zone.name} has no file to change")
    time.sleep(random.Random(serial).uniform(0.0, 1.0))  # no beat with timers of a whole second
    set_serial(zone.file, serial)
    began = time.monotonic()
    stage.reload(primary)
    with stage.rig.client.udp_socket(server.setup.endpoint) as asking:
        arrivals = probe.watch(
            asking, [zone.name], stage.settings.timing.finish_s, lambda reply: probe.serial(reply) == serial
        )
    if arrivals.missing:
        raise LabError(f"{server.installed.label} never served serial {serial} of {zone.name}", server.process.tail())
    return (arrivals.seen[zone.name] - began) * 1000


def _updated_window(stage: Stage, server: Server, settings: Settings) -> Outcome:
    """Queries and updates at once: the update stream begins first and ends last."""
    job = UpdateJob(
        server.setup.endpoint,
        server.setup.zones[0].name,
        settings.change.updates_per_s,
        settings.timing.seconds + 1.0,
        server.setup.tsig,
    )
    stream = stage.start_process("updates", stage.generator.update(job))
    outcome = window(stage, server, settings)
    stream.wait(job.seconds + 20.0)
    result = read_summary(stream.log.read_text())
    outcome.metrics["updates_per_s"] = result.rcodes.get("NOERROR", 0) / result.seconds
    if result.rcodes.get("NOERROR", 0) < result.sent:
        outcome.invalid.append(f"{result.sent - result.rcodes.get('NOERROR', 0)} of {result.sent} updates failed")
    return outcome
