"""Zone transfers: a cold secondary under test, and a null secondary that tests a primary."""

from __future__ import annotations

from zonda_lab import probe
from zonda_lab.errors import LabError
from zonda_lab.load import PullJob, read_summary
from zonda_lab.outcome import Outcome, Recorder, memory_metrics
from zonda_lab.predict import port_bound
from zonda_lab.servers import Feature
from zonda_lab.stage import Server, Span, Stage


def secondary(stage: Stage, recorder: Recorder) -> None:
    """From the start of a secondary that has nothing until it answers for every zone; found out by asking."""
    spec, installed = stage.settings.primary, stage.installed(stage.settings.server.name)
    stage.require(
        installed,
        Feature.SECONDARY,
        *([Feature.XOT_IN] if spec.transport == "tls" else []),
        *([Feature.TSIG] if spec.tsig else []),
    )
    stage.start_primary(stage.zones.zones)
    server = stage.start_server(stage.secondary_zones())
    names = [zone.name for zone in server.setup.zones]
    with stage.span(server) as span, stage.rig.client.udp_socket(server.setup.endpoint) as asking:
        arrivals = probe.watch(asking, names, stage.settings.timing.finish_s, tick=server.process.require_alive)
    span.began = server.process.began
    seen = sorted(at - server.process.began for at in arrivals.seen.values())
    if not seen:
        raise LabError(f"{installed.label} never answered for any of {len(names)} zones", server.process.tail())
    censored = bool(arrivals.missing) and stage.settings.timing.censored
    took = span.ended - span.began if censored else seen[-1]
    metrics = {
        "transfer_s": took,
        "first_answer_s": seen[0],
        "zones_per_s": len(seen) / took,
        "records_per_s": stage.zones.records / took,
        "cpu_us_per_record": server.process.cpu_s() * 1e6 / stage.zones.records,
        "zones_missing": float(len(arrivals.missing)),
    }
    outcome = Outcome(
        span, metrics | memory_metrics(server, stage.zones.records, len(names)), died=not server.process.alive
    )
    outcome.detail["arrivals"] = thinned(seen)
    outcome.predictions = _port_prediction(stage, len(names))
    late = f"{len(arrivals.missing)} of {len(names)} zones had not arrived after {took:.0f} s"
    if censored:
        outcome.notes.append(f"{late}: that time is a lower bound")
    elif arrivals.missing:
        outcome.invalid.append(late)
    recorder.add(outcome)


def pull(stage: Stage, recorder: Recorder) -> None:
    """AXFR of every zone, read as fast as one core can and thrown away."""
    spec, installed = stage.settings.primary, stage.installed(stage.settings.server.name)
    over_tls = stage.settings.traffic.transport == "tls"
    stage.require(
        installed,
        Feature.TRANSFER_OUT,
        *([Feature.XOT_OUT] if over_tls else []),
        *([Feature.TSIG] if spec.tsig else []),
    )
    server = stage.start_server()
    first = stage.wait_ready(server)
    loaded_cpu_s = server.process.cpu_s()
    names = stage.folder / "zones.txt"
    names.write_text("".join(f"{zone.name}\n" for zone in server.setup.zones))
    transport = "tls" if over_tls else "tcp"
    job = PullJob(transport, server.setup.endpoint, names, server.setup.tsig, stage.authority(stage.settings))
    with stage.span(server) as span:
        result = read_summary(stage.run_load(stage.generator.pull(job), stage.settings.timing.finish_s))
    outcome = Outcome(span, _pulled(stage, server, span, result.more), died=not server.process.alive)
    outcome.metrics |= {"first_answer_s": first, "start_cpu_s": loaded_cpu_s}
    outcome.invalid += result.invalid
    if result.more["failed"] or result.more["records"] < stage.zones.records:
        outcome.invalid.append(
            f"{result.more['records']} of {stage.zones.records} records came, {result.more['failed']} zones failed"
        )
    recorder.add(outcome)


def thinned(values: list[float], most: int = 500) -> list[list[float]]:
    """A cumulative curve of at most so many points: [[seconds, how many by then], ...]."""
    step = max(1, len(values) // most)
    return [[round(at, 4), i] for i, at in enumerate(values, 1) if i % step == 0 or i == len(values)]


def _pulled(stage: Stage, server: Server, span: Span, more: dict[str, float]) -> dict[str, float]:
    return {
        "transfer_s": more["seconds"],
        "records_per_s": more["records"] / more["seconds"],
        "zones_per_s": more["zones"] / more["seconds"],
        "bytes_per_message": more["bytes"] / max(1, more["messages"]),
        "records_per_message": more["records"] / max(1, more["messages"]),
        "cpu_us_per_record": span.server_cpu_s * 1e6 / max(1, more["records"]),
        **memory_metrics(server, stage.zones.records, len(server.setup.zones)),
    }


def _port_prediction(stage: Stage, connections: int) -> dict[str, float]:
    """The bound for one connection a zone, from the port range and TIME_WAIT of the secondary's end."""
    low, high = map(int, stage.rig.server.read_sysctl("net.ipv4.ip_local_port_range").split())
    buckets = int(stage.rig.server.read_sysctl("net.ipv4.tcp_max_tw_buckets"))
    bound = port_bound((low, high), destinations=stage.settings.primary.addresses, time_wait_buckets=buckets)
    return {"connections_per_s": bound.connections_per_s, "transfer_s": bound.seconds(connections)}
