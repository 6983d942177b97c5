"""Checks whether this machine is fit for measurements, and measures its limits."""

import contextlib
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import RigSpec, ServerSpec, Settings, TimingSpec, TrafficSpec
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.measurement.environment import Environment
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.validity import ACHIEVED
from zonda_lab.measurement.window import Window
from zonda_lab.procedures.port_exhaustion import TIME_WAIT_S, ports_in
from zonda_lab.procedures.queries import measure_window
from zonda_lab.rig import machine_info
from zonda_lab.rig.namespaces import NamespaceNetwork
from zonda_lab.servers import ADAPTERS

GOOD, NOTE, BAD = "good", "note", "bad"
SINK_RATE = 20_000.0
SINK = TrafficSpec(rate=SINK_RATE, timeout_ms=100)
TRANSPORTS: tuple[Literal["udp", "tcp", "tls"], ...] = ("udp", "tcp", "tls")
LATE_US = 500.0  # most that the 99th percentile of a sleep may overrun; servers answer in tens of microseconds


@dataclass(frozen=True)
class CheckResult:
    """One check's result."""

    state: str
    what: str
    help: str = ""

    @classmethod
    def of_error(cls, state: str, error: LabError) -> Self:
        """The result of a check that failed with an error."""
        return cls(state, error.what, error.help)


def checked(is_good: bool, what: str, help: str = "", otherwise: str = BAD) -> CheckResult:
    """A good result, or otherwise a bad one (or a note), with help."""
    return CheckResult(GOOD, what) if is_good else CheckResult(otherwise, what, help)


def run_check(found: list[CheckResult], check: Callable[..., Iterator[CheckResult]], *arguments: Any) -> bool:
    """Adds the results of a check, and the error that ends it as a bad one; returns whether there was none."""
    try:
        found.extend(check(*arguments))
    except LabError as error:
        found.append(CheckResult.of_error(BAD, error))
        return False
    return True


def examine(generator: LoadGenerator) -> list[CheckResult]:
    """Runs all checks; a failing one does not stop the others."""
    found: list[CheckResult] = []
    for check in (_processors, _quiet, _clock, _sleep, _limits, _namespaces):
        run_check(found, check)
    run_check(found, _generator, generator)
    run_check(found, _limits_of, generator)
    run_check(found, servers, Environment())
    return found


def _processors() -> Iterator[CheckResult]:
    described = machine_info.describe()
    count = os.cpu_count() or 1
    what = f"{described['cpu']}, {count} CPUs, {described['memory_mb']} MB"
    yield checked(count >= 2, what, "server and load generator need one CPU each")
    if count < 4:
        help_text = "compare CPU time per query, which is comparable across machines"
        yield CheckResult(NOTE, "few CPUs: peak rates are those of a server on one core", help_text)
    if described["governor"] not in ("performance", "unknown"):
        yield CheckResult(NOTE, f"frequency governor {described['governor']}", "cpupower frequency-set -g performance")


def _quiet() -> Iterator[CheckResult]:
    before, began = _cpu_ticks(), time.monotonic()
    time.sleep(1.0)
    ticks = [b - a for a, b in zip(before, _cpu_ticks(), strict=True)]
    elapsed = (time.monotonic() - began) * os.sysconf("SC_CLK_TCK")
    busy = (sum(ticks[:3]) + sum(ticks[5:7])) / elapsed
    yield checked(busy < 0.1, f"other programs use {busy:.2f} CPUs", "stop them, or windows will be invalid")
    steal = ticks[7] / elapsed
    what = f"the hypervisor takes {steal:.1%} of the CPU time (steal)"
    yield checked(steal < 0.01, what, "measure when the host is less busy")
    if not Path("/proc/pressure").exists():
        yield CheckResult(NOTE, "this kernel has no pressure stall information", "boot with psi=1")


def _clock() -> Iterator[CheckResult]:
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    name = source.read_text().strip() if source.exists() else "unknown"
    began, n = time.perf_counter_ns(), 100_000
    for _ in range(n):
        time.monotonic_ns()
    cost = (time.perf_counter_ns() - began) / n
    help_text = "this clock source needs a system call; choose tsc or kvm-clock"
    yield checked(cost < 500, f"clock {name}, {cost:.0f} ns per reading", help_text)


def _sleep() -> Iterator[CheckResult]:
    late = sorted(_oversleep_us() for _ in range(300))
    middle, worst = late[150], late[int(len(late) * 0.99)]
    what = f"a 1 ms sleep overruns by {middle:.0f} µs (median), {worst:.0f} µs (99th percentile)"
    yield checked(worst < LATE_US, what, otherwise=NOTE)


def _limits() -> Iterator[CheckResult]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"file descriptors: soft limit {soft}, hard limit {hard}"
    yield checked(hard >= 100_000, what, "ulimit -Hn 1048576 for many connections", NOTE)
    ports = ports_in(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text())
    what = f"{ports} local ports: {ports / TIME_WAIT_S:.0f} connections/s from one address to one server"
    yield CheckResult(GOOD, what, "use more addresses or ports for a higher rate")


def _namespaces() -> Iterator[CheckResult]:
    with NamespaceNetwork(RigSpec()) as rig:
        yield CheckResult(GOOD, "network namespaces and veth pairs work")
        elsewhere = rig.server.sysctl(dict.fromkeys(("net.core.netdev_max_backlog", "net.ipv4.tcp_mem"), "1"))
    if elsewhere:
        help_text = "experiments do not change these and note it in the records"
        yield CheckResult(NOTE, f"not per namespace on this kernel: {', '.join(elsewhere)}", help_text)
    specs = {"qdisc fq": RigSpec(qdisc="fq"), "delay of packets": RigSpec(delay_ms=1.0), "RPS": RigSpec(rps_cpus=[0])}
    for what, spec in specs.items():
        try:
            NamespaceNetwork(spec).close()
            yield CheckResult(GOOD, f"{what} is supported")
        except LabError as error:
            yield CheckResult(NOTE, f"{what} is not supported", error.what)


def _generator(generator: LoadGenerator) -> Iterator[CheckResult]:
    what, is_ours = f"load by {generator.name} {generator.version}", generator.name == "zonda-load"
    limited = f"{what}: closed loop, no latency from the intended send time"
    yield checked(is_ours, what if is_ours else limited, "build zonda-load", NOTE)


def _limits_of(generator: LoadGenerator) -> Iterator[CheckResult]:
    """Limits without a DNS server: those that records have, of echo and of the generator, and the generator's times."""
    environment = Environment()
    for transport in TRANSPORTS:
        with contextlib.suppress(UnsupportedError):
            window = _measured("echo", TrafficSpec(loop="closed", transport=transport), generator, environment)
            rate, cost_us = window.metrics["answered_qps"], window.metrics["cpu_us_per_query"]
            over = f"over {transport.upper()}"
            what = f"limit: an echo {over} on one core answers {rate:,.0f} queries/s, {cost_us:.2f} µs each"
            yield CheckResult(GOOD, what, "no server can exceed this peak rate")
            if busy := window.metrics.get("generator_busy"):
                what = f"limit: a generator {over} would be fully busy at {rate / busy:,.0f} queries/s"
                yield CheckResult(GOOD, what)
    yield from schedule(_measured("sink", SINK, generator, environment), "the generator", generator)


def schedule(sink: Window, sender: str, generator: LoadGenerator) -> Iterator[CheckResult]:
    """Whether queries that are not answered leave at the rate and at the times of their schedule."""
    result = sink.result
    if result is None or not result.scheduled:
        return
    share = result.sent / result.scheduled
    is_exact = share >= ACHIEVED or generator.name == "dnsperf"  # which waits for answers
    yield checked(is_exact, f"{sender}: sends {share:.2%} of {SINK_RATE:,.0f} queries/s into a sink")
    if (off := result.schedule_error_p99_us) is not None:
        yield checked(off < LATE_US, f"{sender}: {off:.0f} µs off its schedule (99 %)")


def _measured(name: str, traffic: TrafficSpec, generator: LoadGenerator, environment: Environment) -> Window:
    settings = Settings(server=ServerSpec(name=name), traffic=traffic, timing=TimingSpec(seconds=1.0))
    installed = {name: environment.installed(ADAPTERS[name])}
    with Harness(settings, installed, generator, environment.network) as harness:
        return measure_window(harness, harness.start_ready_server(), settings)


def servers(environment: Environment, where: str = "") -> Iterator[CheckResult]:
    """The servers that are installed."""
    for adapter in ADAPTERS.values():
        try:
            installed = environment.installed(adapter)
            yield CheckResult(GOOD, f"{where}{adapter.name} {installed.version}  {installed.program}")
        except LabError as error:
            yield CheckResult.of_error(NOTE, error)


def _oversleep_us() -> float:
    began = time.perf_counter_ns()
    time.sleep(0.001)
    return (time.perf_counter_ns() - began) / 1000 - 1000


def _cpu_ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
