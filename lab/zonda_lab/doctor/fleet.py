"""Checks whether the machines of an inventory are fit for measurements: clocks, servers, the rate of each player."""

import time
from collections.abc import Iterator
from pathlib import Path

from zonda_lab.doctor.machine import BAD, GOOD, NOTE, SINK, CheckResult, checked, run_check, schedule, servers
from zonda_lab.experiments.definition import QuerySpec, ServerSpec, Settings, TimingSpec, TrafficSpec
from zonda_lab.fleet.inventory import HostSpec, read
from zonda_lab.fleet.network import ROUGH_S, Fleet, FleetNetwork, require_sources
from zonda_lab.fleet.remote_host import ClockOffset, RemoteHost, drift_ppm
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.measurement import validity
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.window import Window
from zonda_lab.procedures.queries import measure_window
from zonda_lab.servers import ADAPTERS

FAR_S = 0.005  # readiness probes use the SSH connection, so a longer round trip would dominate their result
REAL_TIME_S = 5.0  # certificates and TSIG need an approximate time of day
DRIFT_PPM = 500.0  # the most that an NTP client corrects
WINDOW_S = 2.0
ARRIVED = 0.999  # share of the queries sent that must arrive


def examine(path: Path, generator: LoadGenerator) -> list[CheckResult]:
    """Runs all checks of all machines; a failing one does not stop the others."""
    found: list[CheckResult] = []
    with Fleet(read(path)) as fleet:
        inventory = fleet.inventory
        reached = [run_check(found, _machine, fleet, spec) for spec in inventory.hosts]
        if not all(reached):
            return found
        clocks = [(fleet.machine(spec).read_clock(), time.monotonic()) for spec in inventory.hosts]
        run_check(found, servers, fleet, f"{fleet.server.name}: ")
        if run_check(found, _generator, fleet, generator):
            for spec in inventory.player:
                run_check(found, _player, fleet, spec, generator)
        for spec, (clock, began) in zip(inventory.hosts, clocks, strict=True):
            run_check(found, _drift, fleet.machine(spec), clock, began)
    return found


def _machine(fleet: Fleet, spec: HostSpec) -> Iterator[CheckResult]:
    """Access, requirements and clocks of a machine."""
    machine = fleet.machine(spec)
    described, clock = machine.describe(), machine.clock
    hardware = f"{described['cpu']}, {described['cpus']} CPUs, {described['memory_mb']} MB"
    yield CheckResult(GOOD, f"{spec.name}: {hardware}, {spec.ssh}")
    what = f"{spec.name}: monotonic clock {clock.offset_s:+.6f} s from ours, ± {clock.uncertainty_s * 1e6:.0f} µs"
    yield checked(clock.uncertainty_s < ROUGH_S, what, otherwise=NOTE)
    help_text = "probe times are not more accurate than that: run the lab closer to its machines"
    yield checked(clock.round_trip_s < FAR_S, f"{spec.name}: {clock.round_trip_s * 1e3:.2f} ms round trip", help_text)
    if abs(machine.real_offset_s) > REAL_TIME_S:
        what = f"{spec.name}: its time of day is {machine.real_offset_s:+.0f} s off ours"
        yield CheckResult(BAD, what, "run an NTP client")
    if spec in (fleet.inventory.server, fleet.inventory.primary) and machine.facts["uid"]:
        first_port = int(machine.read_sysctl("net.ipv4.ip_unprivileged_port_start"))
        if first_port > 53:
            fix = "connect as root, or there: sysctl -w net.ipv4.ip_unprivileged_port_start=53"
            yield CheckResult(BAD, f"{spec.name}: only root may listen on port 53", fix)


def _drift(machine: RemoteHost, first: ClockOffset, began: float) -> Iterator[CheckResult]:
    """The clock drift of a machine during the rate checks."""
    now, seconds = machine.read_clock(), time.monotonic() - began
    drift, uncertain = drift_ppm(first, now, seconds)
    what = (
        f"{machine.name}: in {seconds:.0f} s its clock ran {drift:+.0f} ± {uncertain:.0f} millionths faster than ours"
    )
    yield checked(abs(drift) <= DRIFT_PPM + uncertain, what, "is its clock source sound? run an NTP client")


def _generator(fleet: Fleet, generator: LoadGenerator) -> Iterator[CheckResult]:
    fleet.equip(generator)
    yield CheckResult(GOOD, f"load by {generator.name} {generator.version} on {len(fleet.inventory.player)} players")


def _player(fleet: Fleet, spec: HostSpec, generator: LoadGenerator) -> Iterator[CheckResult]:
    """One player alone: does it send at the requested rate, and do its queries arrive?"""
    player = fleet.machine(spec)
    require_sources(fleet.server, player)
    if spec.sources:
        yield CheckResult(GOOD, f"{spec.name}: may send from {spec.sources}")
    sink, arrived, reasons = _measured(fleet, player, generator, "sink", SINK)
    for reason in reasons:
        yield CheckResult(BAD, f"{spec.name}: {reason}", "stop other programs there")
    yield from schedule(sink, spec.name, generator)
    sent = sink.result.sent if sink.result else 0
    what = f"{spec.name}: {arrived / max(1, sent):.2%} of these queries arrive, by the kernel of {fleet.server.name}"
    help_text = "the network or the server's card loses queries at this rate already"
    yield checked(arrived >= ARRIVED * sent, what, help_text)
    echo, _, _ = _measured(fleet, player, generator, "echo", TrafficSpec(loop="closed"))
    what = f"{spec.name}: a UDP echo gives it {echo.metrics['answered_qps']:,.0f} answers a second"
    yield CheckResult(GOOD, what, "no server's peak can be higher than the sum of the players'")


def _measured(
    fleet: Fleet, player: RemoteHost, generator: LoadGenerator, name: str, traffic: TrafficSpec
) -> tuple[Window, int, list[str]]:
    """One window by one player: the window, datagrams received by the server, validity reasons of the player."""
    queries, timing = QuerySpec(count=10_000), TimingSpec(seconds=WINDOW_S)
    settings = Settings(server=ServerSpec(name=name), queries=queries, traffic=traffic, timing=timing)
    installed = {name: fleet.installed(ADAPTERS[name])}
    with Harness(settings, installed, generator, lambda asked: FleetNetwork(fleet, asked, [player])) as harness:
        server = harness.start_ready_server()
        before = _datagrams(fleet.server)
        window = measure_window(harness, server, settings)
        arrived = _datagrams(fleet.server) - before
        telemetry, span = harness.observer.elsewhere(window.span)[player.name], window.span
        own_cores = span.elsewhere_cpu_s[player.name] / span.seconds
        return window, arrived, validity.machine_reasons(telemetry, span.seconds, own_cores)


def _datagrams(machine: RemoteHost) -> int:
    """UDP datagrams received so far, including dropped ones and those to closed ports."""
    names, values = (line.split() for line in machine.run("grep", "^Udp:", "/proc/net/snmp").splitlines())
    counted = dict(zip(names[1:], map(int, values[1:]), strict=True))
    return counted["InDatagrams"] + counted["InErrors"] + counted["NoPorts"]
