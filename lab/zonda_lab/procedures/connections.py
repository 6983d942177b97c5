"""Procedures: idle connections, hostile clients, and more connections than file descriptors."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import ChangeSpec
from zonda_lab.experiments.metrics import OF_MEMORY
from zonda_lab.load.generator import Command
from zonda_lab.load.latency_histogram import LatencyHistogram
from zonda_lab.load.result import LoadResult
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.load_runner import OnEvent, sources
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.window import Recorder, Window, memory_metrics, window_of
from zonda_lab.procedures.port_exhaustion import ports_in
from zonda_lab.procedures.procedure import Procedure
from zonda_lab.rig import kernel_memory, open_files, readiness
from zonda_lab.rig.host import Host
from zonda_lab.servers.config import Endpoint
from zonda_lab.zones.workload import workload

RECOVERY_S = 30.0
SETTLED_S, SETTLING_S = 0.5, 10.0  # memory that did not change for so long is settled; the longest wait for that
ACCEPTED_PER_S = 3_000  # connections, by a slow server
WARM_UP, WARM_UP_S = 64, 1.0  # connections before the first weighing, and how long they ask all queries
EXHAUSTED = 0.8  # share of the descriptors of a process; Zonda keeps some for files and transfers
NO_SLAB = "kernel memory needs root: /proc/slabinfo is not readable"
KernelMemory = dict[str, int | None]  # None: not readable
CLOSED_AT_ONCE = ("reset", "handshake", "random")  # hostile connections that do not stay open to be weighed


def idle(harness: Harness, recorder: Recorder) -> None:
    """Opens connections, idle or hostile: memory while all are open, UDP service, and when the server closes them."""
    server = harness.start_ready_server()
    change, held = harness.settings.change, dict[str, float]()
    _warm_up(harness, server)
    before, kernel_before = _settled_pss_kb(server), _kernel(harness)
    closed = 0  # by the server, before it is weighed

    def on_event(event: dict[str, Any]) -> None:
        nonlocal closed
        if event["msg_type"] == "open" and change.hostile not in CLOSED_AT_ONCE:
            count, closed = max(1, event["zonda"]["open"]), event["zonda"]["closed_by_peer"]
            held.update(memory_metrics(server, before, connection=count))
            held.update(of_kernel(kernel_before, _kernel(harness), count))

    with harness.span(server) as span:
        result = hold(harness, server, change, on_event)
    window = window_of(server, span, held | opened(result, change))
    if kernel_before["slab"] is None:
        window.notes.append(NO_SLAB)
    if change.hostile:
        server.process.require_alive()
        _add_recovery(harness, server, window)
    elif result.more["failed"]:
        window.invalid.append(f"{result.more['failed']} of {change.connections} connections could not be opened")
    elif closed:
        window.invalid.append(f"the server closed {closed} of {change.connections} connections while they were opened")
    ports = ports_in(harness.network.client.read_sysctl("net.ipv4.ip_local_port_range"))
    window.predictions = {"connections": float(harness.settings.traffic.sources * ports)}
    recorder.add(window)


def _warm_up(harness: Harness, server: Server) -> None:
    """Asks all queries, also by UDP as the probes do.

    What a server allocates once, or remembers of answers, is not the connections'.
    """
    traffic = replace(harness.settings.traffic, loop="closed", connections=WARM_UP, outstanding=WARM_UP)
    for warm_up in (traffic, replace(traffic, transport="udp")):
        harness.load.run(harness.load.job(replace(harness.settings, traffic=warm_up), server, seconds=WARM_UP_S))


def descriptors(harness: Harness, recorder: Recorder) -> None:
    """Opens more connections than the server has descriptors: share of UDP answered, recovery time of TCP."""
    server, change, used = harness.start_ready_server(), harness.settings.change, list[dict[str, int]]()

    def on_event(event: dict[str, Any]) -> None:
        if event["msg_type"] == "open":
            printed = harness.run_script(harness.network.server, open_files, str(server.process.pid))
            used.extend(map(json.loads, printed.splitlines()))

    with harness.span(server) as span:
        result = hold(harness, server, change, on_event)
    server.process.require_alive()
    window = window_of(server, span, opened(result, change))
    window.detail["descriptors"] = used
    window.invalid += unused(used)
    _add_recovery(harness, server, window)
    with harness.span(server) as rest:
        time.sleep(1.0)
    window.metrics["server_cpu_after"] = rest.server_cpu_s / rest.seconds
    window.later["rest"] = rest
    recorder.add(window)


def unused(processes: Sequence[Mapping[str, int]]) -> list[str]:
    """Why the descriptors of a server were not exhausted; empty if a process had nearly as many open as it may have."""
    fullest = max(processes, key=lambda each: each["open"] / each["limit"], default=None)
    if fullest and fullest["open"] >= EXHAUSTED * fullest["limit"]:
        return []
    had = f"a process of it had {fullest['open']} of {fullest['limit']} open" if fullest else "none is known"
    return [f"the server has not used its descriptors: {had}"]


def hold(
    harness: Harness, server: Server, change: ChangeSpec, on_event: OnEvent | None = None, until_answered: bool = False
) -> LoadResult:
    """Opens the connections of `change` and holds them; calls `on_event` with what the generator reports meanwhile."""
    command = hold_command(harness, server, change, until_answered)
    return harness.load.command(command, change.connections / change.connect_rate * 2 + change.hold_s, on_event)


def hold_command(harness: Harness, server: Server, change: ChangeSpec, until_answered: bool = False) -> Command:
    """The command of the load generator that opens the connections of `change`."""
    settings, traffic = harness.settings, harness.settings.traffic
    return harness.zonda_load.hold(
        server.config.endpoint,
        traffic,
        change,
        until_answered,
        source_prefix=sources(harness.network.client, traffic.sources),
        workload=workload(settings.zones, settings.queries) if server.checked or until_answered else None,
        authority=harness.load.authority(settings),
    )


def opened(result: LoadResult, change: ChangeSpec) -> dict[str, float]:
    """The metrics of the connections, and the share of the UDP probes meanwhile that were answered."""
    more, answered = result.more, result.answered + result.late_answers
    metrics = {"connects_per_s": more["established"] / max(more["open_s"], 1e-9)}
    if change.hostile not in CLOSED_AT_ONCE:
        metrics["connections_open"] = more["open"]
    metrics["udp_answered_share"] = answered / result.sent if result.sent else 0.0
    if more.get("last_closed_s") is not None:
        metrics["reclaim_s"] = more["last_closed_s"]
    if result.latency_intended:
        metrics["probe_p99_us"] = LatencyHistogram(result.latency_intended).percentile(99.0)
    return metrics


def _settled_pss_kb(server: Server) -> int:
    """The server's memory once what loading needed has been given back, which takes some servers a moment."""
    deadline, now = time.monotonic() + SETTLING_S, server.process.memory().pss_kb
    while time.monotonic() < deadline:
        time.sleep(SETTLED_S)
        before, now = now, server.process.memory().pss_kb
        if now == before:
            break
    return now


def _kernel(harness: Harness) -> KernelMemory:
    """Slab objects and socket buffers of the server's machine."""
    found: KernelMemory = json.loads(harness.run_script(harness.network.server, kernel_memory))
    return found


def of_kernel(before: KernelMemory, now: KernelMemory, connections: int) -> dict[str, float]:
    """The kernel memory of a connection; nothing if the slab objects are not known."""
    grown = {name: octets - (before[name] or 0) for name, octets in now.items() if octets is not None}
    if "slab" not in grown:
        return {}
    slab = grown["slab"] / connections
    both = slab + grown["buffers"] / connections
    return {"kernel_slab_bytes_per_connection": slab, "kernel_bytes_per_connection": both}


def _add_recovery(harness: Harness, server: Server, window: Window) -> None:
    """Measures how long the server does not answer over TCP, now that all connections are closed."""
    with harness.span(server) as recovery:
        seconds = _tcp_recovery_s(harness.network.client, server.config.endpoint, server.config.zones[-1].name)
    window.metrics["tcp_recovery_s"] = seconds
    window.later["recovery"] = recovery


def _tcp_recovery_s(client: Host, endpoint: Endpoint, zone: str) -> float:
    """Seconds until a query over a new TCP connection is answered."""
    began = time.monotonic()
    while time.monotonic() - began < RECOVERY_S:
        if _asked_over_tcp(client, endpoint, readiness.query(random.randrange(65536), zone)):
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


def held_estimate_s(start: Start) -> float:
    """Opening and holding the connections."""
    change = start.settings.change
    return change.hold_s + change.connections / min(change.connect_rate, ACCEPTED_PER_S) + 0.5


OF_CONNECTIONS = ("bytes_per_connection", "kernel_bytes_per_connection", "kernel_slab_bytes_per_connection")
HELD = ("connections_open", "connects_per_s", "reclaim_s", "probe_p99_us", "udp_answered_share", "tcp_recovery_s")
IDLE = Procedure(idle, (*HELD, *OF_CONNECTIONS, *OF_MEMORY), held_estimate_s)
DESCRIPTORS = Procedure(  # with recovery and rest
    descriptors, (*HELD, "server_cpu_after"), lambda start: held_estimate_s(start) + 2.5
)
