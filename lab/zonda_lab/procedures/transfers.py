"""Procedures: transfers into an empty secondary, and transfers out of a primary."""

import math

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import Start
from zonda_lab.load.zone_probe import Arrivals
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.window import Recorder, memory_metrics, window_of
from zonda_lab.procedures.port_exhaustion import TIME_WAIT_S, shortest_s, usable_tuples
from zonda_lab.procedures.procedure import MEMORY_OF_ZONES, Procedure
from zonda_lab.servers import Feature

MANY = 100  # zones, which are probed so often that receive buffers matter
POINTS = 500  # of a curve of arrivals
PORTS = "32768 60999"  # of Linux; `rig.sysctl` may say otherwise
RECORD_TRANSFER_S, RECORD_PULL_S = 12e-6, 1e-6  # by a secondary that stores them, and by one that discards them


def secondary(harness: Harness, recorder: Recorder) -> None:
    """Time from the start of an empty secondary until it answers for every zone, and the CPU time of both sides."""
    spec, installed = harness.settings.primary, harness.installed(harness.settings.server.name)
    over_tls = Feature.XOT_IN if spec.transport == "tls" else None
    harness.require(installed, Feature.SECONDARY, over_tls, Feature.TSIG if spec.tsig else None)
    primary = harness.start_primary(harness.zones.zones)
    loaded_cpu_s = primary.process.cpu_s()
    zones, records = harness.secondary_zones(), harness.zones.records
    names = [zone.name for zone in zones]
    probe = harness.start_probe(names, harness.settings.timing.finish_s)
    with harness.span() as span:
        server = harness.start_server(zones)
        if len(names) >= MANY:  # with few zones, this would disturb the start more than it helps
            harness.settle_early(server)
        arrivals = harness.arrivals(probe, server)
    span.began = server.process.began
    seen = sorted(at - server.process.began for at in arrivals.seen.values())
    if not seen:
        raise LabError(f"{installed.label} never answered for any of {len(names)} zones", detail=server.process.tail())
    harness.settle_sockets(server, change=False)
    censored = bool(arrivals.missing) and harness.settings.timing.censored
    took = span.ended - span.began if censored else seen[-1]
    served_cpu_s, cpu_s = primary.process.cpu_s() - loaded_cpu_s, server.process.cpu_s()
    metrics = {"transfer_s": took, "first_answer_s": seen[0], "zones_missing": float(arrivals.missing)}
    metrics |= _rates(arrivals, records, took, censored)
    metrics |= _costs(cpu_s, served_cpu_s, records, is_complete=not arrivals.missing)
    window = window_of(server, span, metrics | memory_metrics(server, record=records, zone=len(names)))
    window.detail["arrivals"] = thinned(seen)
    window.predictions = _port_prediction(harness, len(names))
    late = f"{arrivals.missing} of {len(names)} zones missing after {took:.0f} s"
    if censored:
        window.notes.append(f"{late}: the transfer time is censored, a lower bound")
    elif arrivals.missing:
        window.invalid.append(late)
    recorder.add(window)


def _rates(arrivals: Arrivals, records: int, seconds: float, censored: bool) -> dict[str, float]:
    """Zones and records per second; if censored upper bounds, those of a secondary that had just transferred all."""
    zones = len(arrivals.seen) + (arrivals.missing if censored else 0)
    return {"zones_per_s": zones / seconds, "records_per_s": records / seconds}


def _costs(cpu_s: float, primary_cpu_s: float, records: int, is_complete: bool) -> dict[str, float]:
    """CPU time of secondary and primary per record; their ratio only if all records were transferred."""
    costs = {"cpu_us_per_record": cpu_s * 1e6 / records, "primary_cpu_us_per_record": primary_cpu_s * 1e6 / records}
    return costs | ({"primary_secondary_ratio": primary_cpu_s / max(cpu_s, 1e-6)} if is_complete else {})


def pull(harness: Harness, recorder: Recorder) -> None:
    """AXFR of every zone; the client discards the content."""
    spec, installed = harness.settings.primary, harness.installed(harness.settings.server.name)
    over_tls = Feature.XOT_OUT if harness.settings.traffic.transport == "tls" else None
    harness.require(installed, Feature.TRANSFER_OUT, over_tls, Feature.TSIG if spec.tsig else None)
    server, records = harness.start_ready_server(), harness.zones.records
    loaded_cpu_s, config = server.process.cpu_s(), server.config
    names = harness.folder / "zones.txt"
    names.write_text("".join(f"{zone.name}\n" for zone in config.zones))
    authority, timing = harness.load.authority(harness.settings), harness.settings.timing
    patience_s = timing.finish_s if timing.censored else 0.0
    transport = "tls" if over_tls else "tcp"
    target = (config.endpoint, transport, names, config.tsig, authority)
    with harness.span(server) as span:
        result = harness.load.command(harness.zonda_load.pull(*target, patience_s=patience_s), timing.finish_s)
    more = result.more
    metrics = {
        "transfer_s": more["seconds"],
        "records_per_s": more["records"] / more["seconds"],
        "zones_per_s": more["zones"] / more["seconds"],
        "bytes_per_message": more["bytes"] / max(1, more["messages"]),
        "records_per_message": more["records"] / max(1, more["messages"]),
        "cpu_us_per_record": span.server_cpu_s * 1e6 / max(1, more["records"]),
        "first_answer_s": server.first_answer_s,
        "start_cpu_s": loaded_cpu_s,
    }
    window = window_of(server, span, metrics | memory_metrics(server, record=records, zone=len(config.zones)))
    missing = more["failed"] or more["records"] < records
    late = f"got {more['records']} of {records} records; {more['failed']} zones failed"
    if missing and timing.censored:
        window.metrics = {"transfer_s": more["seconds"]}
        window.bounds["transfer_s"] = "at least"
        window.notes.append(f"{late}: the transfer time is censored, a lower bound")
    else:
        window.invalid += [*result.invalid, *([late] if missing else [])]
    recorder.add(window)


def thinned(values: list[float]) -> list[list[float]]:
    """A cumulative curve of about `POINTS` points: [[seconds, count], ...]."""
    step = max(1, len(values) // POINTS)
    return [[round(at, 4), i] for i, at in enumerate(values, 1) if i % step == 0 or i == len(values)]


def _port_prediction(harness: Harness, connections: int) -> dict[str, float]:
    """The bound for one connection per zone, from the port range and TIME_WAIT of the secondary."""
    ports = harness.network.server.read_sysctl("net.ipv4.ip_local_port_range")
    buckets = int(harness.network.server.read_sysctl("net.ipv4.tcp_max_tw_buckets"))
    tuples = usable_tuples(ports, harness.settings.primary.addresses, buckets)
    return {"connections_per_s": tuples / TIME_WAIT_S, "transfer_s": shortest_s(connections, tuples)}


def secondary_estimate_s(start: Start) -> float:
    """Waiting for local ports, and the transfer; the primary loads the zones."""
    spec, sysctl = start.settings.primary, start.settings.rig.sysctl
    ports = str(sysctl.get("net.ipv4.ip_local_port_range", PORTS))
    tuples = usable_tuples(ports, spec.addresses, float(sysctl.get("net.ipv4.tcp_max_tw_buckets", math.inf)))
    transfer = start.settings.zones.expected_records * RECORD_TRANSFER_S
    return 0.4 + transfer + min(start.settings.timing.finish_s, shortest_s(start.settings.zones.zones, tuples))


TRANSFERRED = ("transfer_s", "first_answer_s", "zones_per_s", "records_per_s", "cpu_us_per_record", *MEMORY_OF_ZONES)
SECONDARY = Procedure(
    secondary,
    (*TRANSFERRED, "zones_missing", "primary_cpu_us_per_record", "primary_secondary_ratio"),
    secondary_estimate_s,
)
PULL = Procedure(
    pull,
    (*TRANSFERRED, "start_cpu_s", "bytes_per_message", "records_per_message"),
    lambda start: 0.2 + start.settings.zones.expected_records * RECORD_PULL_S,
)
