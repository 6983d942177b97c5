"""Procedures: zone changes and dynamic updates while queries are answered."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import dns.message
import numpy as np

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import Settings
from zonda_lab.experiments.metrics import OF_MEMORY, OF_QUERIES
from zonda_lab.load.result import LoadResult, events, read_summary
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.window import Recorder, Window, window_of
from zonda_lab.procedures.procedure import Procedure
from zonda_lab.procedures.queries import estimate_s, measure_window, warm_up
from zonda_lab.procedures.startup import NEW_SERIAL
from zonda_lab.rig import readiness
from zonda_lab.rig.process import YIELDING, Program
from zonda_lab.servers import Feature
from zonda_lab.servers.config import Zone
from zonda_lab.zones.zonegen import set_serial

FOR_P99 = 100  # changes; with fewer, the 99th percentile lies between the two longest times
ASKED = 5  # times, as a datagram may be lost under load
SERIALS = 1 << 32


def propagation(harness: Harness, recorder: Recorder) -> None:
    """Changes a zone file and reloads the primary: time until the secondary serves the new serial."""
    harness.require(harness.installed(harness.settings.server.name), Feature.SECONDARY)
    zones = harness.changeable_zones()
    primary = harness.start_primary(zones, notify=(harness.endpoint,))
    harness.require(primary.installed, Feature.NOTIFY)
    server = harness.start_ready_server(harness.secondary_zones())
    with harness.span(server) as span:
        delays = [
            _changed_ms(harness, primary, server, random.Random(i).choice(zones), NEW_SERIAL + i)
            for i in range(harness.settings.change.changes)
        ]
    detail = {"delays_ms": [round(delay, 3) for delay in delays]}
    recorder.add(window_of(server, span, _propagation_metrics(delays), detail=detail))


def _propagation_metrics(delays: Sequence[float]) -> dict[str, float]:
    """Median and longest time of these delays in ms, and their 99th percentile if there are enough for one."""
    metrics = {"propagation_p50_ms": float(np.median(delays)), "propagation_max_ms": max(delays)}
    return metrics | ({"propagation_p99_ms": float(np.percentile(delays, 99))} if len(delays) >= FOR_P99 else {})


def updating(harness: Harness, recorder: Recorder) -> None:
    """Windows of queries during dynamic updates or zone transfers; without both it is the control."""
    server = harness.start_server(harness.changeable_zones(), updates=True)
    if any(planned.settings.change.updates_per_s for planned in recorder.windows):
        harness.require(server.installed, Feature.UPDATE)
    harness.wait_ready(server)
    warm_up(harness, server)
    for planned in recorder.windows:
        recorder.add(_disturbed_window(harness, server, planned.settings).measured_as(planned))


def receiving(harness: Harness, recorder: Recorder) -> None:
    """Windows of queries to a secondary while its zones change on the primary; without changes it is the control."""
    harness.require(harness.installed(harness.settings.server.name), Feature.SECONDARY)
    harness.start_primary(harness.zones.zones, notify=(harness.endpoint,))
    server = harness.start_ready_server(harness.secondary_zones())
    warm_up(harness, server)
    for planned in recorder.windows:
        before, began = _serial(harness, server)
        window = measure_window(harness, server, planned.settings)
        after, ended = _serial(harness, server)
        versions = (after - before) % SERIALS
        window.metrics["versions_per_s"] = versions / (ended - began)
        if planned.settings.primary.changes_per_s and not versions:
            window.invalid.append(f"{server.installed.label} served no new version of {server.config.zones[0].name}")
        recorder.add(window.measured_as(planned))


def _serial(harness: Harness, server: Server) -> tuple[int, float]:
    """The serial that the server answers for its first zone, and when it did."""
    asked = readiness.query(1, server.config.zones[0].name)
    with harness.network.client.udp_socket(server.config.endpoint) as probe:
        for _ in range(ASKED):
            if reply := readiness.ask(probe, asked, 1.0):
                return int(dns.message.from_wire(reply).answer[0][0].serial), time.monotonic()
    raise LabError(f"{server.installed.label} does not answer the SOA query", detail=server.process.tail())


def _changed_ms(harness: Harness, primary: Server, server: Server, zone: Zone, serial: int) -> float:
    """Milliseconds from the reload until the server answers with `serial`."""
    if zone.file is None:
        raise LabError(f"{zone.name} has no file to change")
    time.sleep(random.Random(serial).uniform(0.0, 1.0))  # avoids aliasing with one-second timers
    probe = harness.start_probe([zone.name], harness.settings.timing.finish_s, serial)
    set_serial(zone.file, serial)
    asked = harness.reload(primary)
    arrivals = harness.arrivals(probe, server)
    if arrivals.missing:
        what = f"{server.installed.label} never served serial {serial} of {zone.name}"
        raise LabError(what, detail=server.process.tail())
    return (arrivals.seen[zone.name] - asked) * 1000


def _disturbed_window(harness: Harness, server: Server, settings: Settings) -> Window:
    """One window of queries; updates and transfers start before it and end after it.

    Their clients share the generator's CPU, with little weight, so that they delay few queries.
    """
    change, seconds, config = settings.change, settings.timing.seconds + 1.0, server.config
    updates = transfers = None
    if change.updates_per_s:
        zone = config.zones[0].name
        update = harness.zonda_load.update(config.endpoint, zone, change.updates_per_s, seconds, config.tsig)
        updates = harness.start_process("updates", [*YIELDING, *update])
    if change.transfers:
        transfers = harness.start_process("transfers", [*YIELDING, *_endless_pull(harness, server, change.transfers)])
    window = measure_window(harness, server, settings)
    if transfers is not None or updates is not None:
        window.load_s = 0.0  # the server goes on working for them when the queries have ended
    if transfers is not None:
        _add_transfers(window, transfers)
        _without_query_cost(window)
    if updates is not None:
        updates.wait(seconds + 20.0)
        _add_updates(window, read_summary(updates.log.read_text()))
    return window


def _endless_pull(harness: Harness, server: Server, parallel: int) -> list[str | Path]:
    """Transfers all zones again and again until a transfer fails; at any time `parallel` transfers are running.

    Each zone is listed so often because every thread of the client takes the next zone of the list.
    """
    names = harness.folder / "transferred-zones.txt"
    names.write_text("".join(f"{zone.name}\n" * parallel for zone in server.config.zones))
    harness.network.client.place(names)
    pull = harness.zonda_load.pull(server.config.endpoint, "tcp", names, server.config.tsig, parallel=parallel)
    return ["sh", "-c", 'while "$@"; do :; done', "sh", *pull]


def _add_transfers(window: Window, transfers: Program) -> None:
    """Ends the transfers; counts those of the passes that are complete, in the time of these passes."""
    if not transfers.alive:
        window.invalid.append("the zone transfers ended during the window, because one failed")
    transfers.stop()
    passes = [found for found in events(transfers.log.read_text()) if found.get("type") == "stats_sum"]
    if passes:
        seconds = (passes[-1]["until"] - passes[0]["since"]) / 1e9
        window.metrics["transfers_per_s"] = sum(done["zonda"]["zones"] for done in passes) / seconds
    else:
        window.notes.append("no zone was transferred completely")
    transfers.log.unlink()


def _without_query_cost(window: Window) -> None:
    """Transfers use most of the server's CPU time, before and after the queries too, so that it is not theirs."""
    for name in ("cpu_us_per_query", "answers_per_cpu_s"):
        window.metrics.pop(name, None)


def _add_updates(window: Window, result: LoadResult) -> None:
    """Updates that failed are a result; without a single success, this was no window with updates."""
    accepted = result.rcodes.get("NOERROR", 0)
    window.metrics["updates_per_s"] = accepted / result.seconds
    window.metrics["updates_failed_share"] = 1 - accepted / result.sent if result.sent else 0.0
    if not accepted:
        window.invalid.append(f"all {result.sent} updates failed")


def propagation_estimate_s(start: Start) -> float:
    """A change takes half a second on average, to avoid aliasing with timers, and the probe's start."""
    return 0.5 + start.settings.change.changes * 1.1


PROPAGATION = Procedure(
    propagation, ("propagation_p50_ms", "propagation_p99_ms", "propagation_max_ms"), propagation_estimate_s
)
UPDATING = Procedure(
    updating,
    (*OF_QUERIES, *OF_MEMORY, "first_answer_s", "updates_per_s", "updates_failed_share", "transfers_per_s"),
    lambda start: estimate_s(start) + 0.5 * len(start.within),  # the start and end of the updates
    is_timed=True,
    uses_echo=True,
)
RECEIVING = Procedure(
    receiving, (*OF_QUERIES, *OF_MEMORY, "first_answer_s", "versions_per_s"), estimate_s, is_timed=True, uses_echo=True
)
