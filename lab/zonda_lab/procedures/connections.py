"""Many TCP connections at once: at rest, and more of them than there are descriptors."""

from __future__ import annotations

import random
import time

from zonda_lab import probe
from zonda_lab.errors import LabError
from zonda_lab.hdr import Latency
from zonda_lab.host import Host
from zonda_lab.load import HoldJob, LoadResult, read_summary
from zonda_lab.model import Endpoint
from zonda_lab.outcome import Outcome, Recorder, memory_metrics
from zonda_lab.series import net
from zonda_lab.stage import Server, Stage

PAGE = 4096  # sockstat counts TCP memory in pages
RECOVERY_S = 30.0


def idle(stage: Stage, recorder: Recorder) -> None:
    """Opens connections, reads memory while all are held, and sees how long the server keeps them."""
    server = stage.start_server()
    stage.wait_ready(server)
    before, kernel_before = server.process.memory().pss_kb, _kernel_bytes(stage)
    change, held = stage.settings.change, dict[str, float]()

    def on_event(name: str) -> None:
        if name == "open":
            held.update(memory_metrics(server, 0, 0, change.connections, before))
            held["kernel_bytes_per_connection"] = (_kernel_bytes(stage) - kernel_before) / change.connections

    with stage.span(server) as span:
        output = stage.run_load(stage.generator.hold(_job(stage, server)), _longest(stage), on_event)
    result = read_summary(output)
    outcome = Outcome(span, held | _opened(result), died=not server.process.alive)
    if result.more["failed"]:
        outcome.invalid.append(f"{result.more['failed']} of {change.connections} connections could not be opened")
    outcome.predictions = {"connections": float(stage.settings.traffic.sources * _ports(stage))}
    recorder.add(outcome)


def descriptors(stage: Stage, recorder: Recorder) -> None:
    """Connections beyond the server's descriptors: UDP must be served meanwhile, TCP again afterwards."""
    server = stage.start_server()
    stage.wait_ready(server)
    with stage.span(server) as span:
        result = read_summary(stage.run_load(stage.generator.hold(_job(stage, server)), _longest(stage)))
    server.process.require_alive()
    recovery = _tcp_recovery_s(stage.rig.client, server.setup.endpoint, server.setup.zones[-1].name)
    with stage.span(server) as rest:
        time.sleep(1.0)
    metrics = {
        "udp_answered_share": result.answered / result.sent if result.sent else 0.0,
        "tcp_recovery_s": recovery,
        "server_cpu": rest.server_cpu_s / rest.seconds,
        **_opened(result),
    }
    recorder.add(Outcome(span, metrics, died=not server.process.alive))


def _job(stage: Stage, server: Server) -> HoldJob:
    traffic, change = stage.settings.traffic, stage.settings.change
    return HoldJob(
        transport=traffic.transport if traffic.transport != "udp" else "tcp",
        endpoint=server.setup.endpoint,
        connections=change.connections,
        rate=change.connect_rate,
        seconds=change.hold_s,
        sources=traffic.sources,
        source_prefix=stage.sources(stage.rig.client, traffic.sources),
        workload=stage.workload() if server.checked else None,
        authority=stage.authority(stage.settings),
    )


def _longest(stage: Stage) -> float:
    change = stage.settings.change
    return change.connections / change.connect_rate * 2 + change.hold_s


def _opened(result: LoadResult) -> dict[str, float]:
    more = result.more
    metrics = {"connections_open": more["open"], "connects_per_s": more["open"] / max(more["open_s"], 1e-9)}
    if more.get("last_closed_s") is not None:
        metrics["reclaim_s"] = more["last_closed_s"]
    if result.latency_intended:
        metrics["probe_p99_us"] = Latency(result.latency_intended).percentile(99.0)
    return metrics


def _kernel_bytes(stage: Stage) -> float:
    """Memory of all TCP sockets at both ends by sockstat: what they queue; the sockets themselves are in slabs."""
    samples = stage.latest().samples
    return sum(net(end, "TCP.mem")(samples[-1]) for end in ("server", "client")) * PAGE if samples else 0.0


def _ports(stage: Stage) -> int:
    low, high = stage.rig.client.read_sysctl("net.ipv4.ip_local_port_range").split()
    return int(high) - int(low) + 1


def _tcp_recovery_s(client: Host, endpoint: Endpoint, zone: str) -> float:
    """Seconds until a new connection is answered."""
    began = time.monotonic()
    while time.monotonic() - began < RECOVERY_S:
        if _asked_over_tcp(client, endpoint, probe.query(random.randrange(65536), zone)):
            return time.monotonic() - began
        time.sleep(0.02)
    raise LabError(f"the server does not answer over TCP {RECOVERY_S:.0f} s after all connections were closed")


def _asked_over_tcp(client: Host, endpoint: Endpoint, asked: bytes) -> bool:
    try:
        with client.tcp_stream(endpoint, 0.5) as stream:
            stream.sendall(len(asked).to_bytes(2, "big") + asked)
            return len(stream.recv(2)) == 2
    except OSError:
        return False
