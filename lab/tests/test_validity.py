import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zonda_lab.experiments.definition import RigSpec, Settings, TrafficSpec
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.load.latency_histogram import LatencyHistogram
from zonda_lab.load.result import LoadResult
from zonda_lab.measurement import validity
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.validity import ValidityInput
from zonda_lab.measurement.window import Window, processor_metrics
from zonda_lab.procedures.port_exhaustion import TIME_WAIT_S, ports_in, shortest_s, usable_tuples
from zonda_lab.results.window_record import disturbed
from zonda_lab.rig.host import Network
from zonda_lab.run.rig_limits import Limits, traffic_key
from zonda_lab.telemetry.series import BUFFERS, OCTETS, PACKETS, Telemetry, net, saturated


def telemetry(seconds: float = 2.0, hz: int = 10, **change: Any) -> Telemetry:
    """Two CPUs, a server and a generator with one thread each; `change` sets the increase of counters per second."""
    samples = []
    for i in range(int(seconds * hz) + 1):
        t = i / hz
        threads = {label: {label: int(change.get(label, 0.4) * t * 1e9)} for label in ("server", "load")}
        waits = {label: int(change.get(f"{label}_waits", 0.0) * t * 1e9) for label in threads}
        samples.append(
            {
                "t": int((100 + t) * 1e9),
                "late": int(change.get("late", 0.0) * 1e9),
                "cpu": [
                    [
                        ticks(t, change.get("busy", 0.4)),
                        0,
                        0,
                        ticks(t, 1 - change.get("busy", 0.4) - change.get("softirq", 0.0)),
                        0,
                        0,
                        ticks(t, change.get("softirq", 0.0)),
                        ticks(t, change.get("steal", 0.0)),
                    ]
                ]
                * 2,
                "psi": {"cpu": 0, "io": int(change.get("io", 0.0) * t * 1e6), "memory": 0},
                "processes": {
                    label: {
                        "threads": found,
                        "names": {label: f"main of {label}"},
                        "rss_kb": 1000,
                        "wait_ns": waits[label],
                        "disk_octets": 1 + int(change.get(f"{label}_disk", 0) * t),
                    }
                    for label, found in threads.items()
                },
                "net": {
                    "server": {
                        "Udp.RcvbufErrors": int(change.get("server_drops", 0) * t),
                        "TCP.tw": int(10 * t),
                        "TcpExt.ListenDrops": int(change.get("listen_drops", 0) * t),
                        PACKETS: int(change.get("queries", 5000) * t),
                        BUFFERS: int(4000 * t),
                        OCTETS: int((4000 * 52 + change.get("query_octets", 210_000)) * t),
                    },
                    "client": {
                        "Udp.RcvbufErrors": int(change.get("client_drops", 0) * t),
                        PACKETS: int(change.get("answers", 5000) * t),
                        BUFFERS: int(3000 * t),
                        OCTETS: int((3000 * 52 + change.get("answer_octets", 510_000)) * t),
                    },
                },
            }
        )
    return Telemetry({"tick": 100, "hz": hz}, samples)


def ticks(seconds: float, share: float) -> int:
    return int(100 * seconds * share)


def result(**change: Any) -> LoadResult:
    values: dict[str, Any] = {"sent": 10_000, "answered": 10_000, "seconds": 2.0, "scheduled": 10_000}
    return LoadResult(**{**values, "schedule_error_p99_us": 20.0, **change})


def rig(**change: Any) -> Network:
    """A network with a CPU for the server and one for the generator."""
    return cast(Network, SimpleNamespace(**{"is_isolated": True, "server_cpus": [0], "load_cpus": [1], **change}))


def reasons(seen: Telemetry | None = None, loaded: LoadResult | None = None, **change: Any) -> list[str]:
    return validity.reasons(window(seen, loaded, **change))


def window(seen: Telemetry | None = None, loaded: LoadResult | None = None, **change: Any) -> ValidityInput:
    given: dict[str, Any] = {"seconds": 2.0, "own_cores": 0.8, "server_cpu_s": 0.0, "died": False, "network": rig()}
    given |= {"latency_p50_us": 100.0, "receive_buffer": 4 << 20, **change}
    ended, own_cpu_s = 100.0 + given["seconds"], given["own_cores"] * given["seconds"]
    span = Span(began=100.0, ended=ended, server_cpu_s=given["server_cpu_s"], own_cpu_s=own_cpu_s)
    metrics = {"latency_p50_us": given["latency_p50_us"], "receive_buffer_kb": given["receive_buffer"] / 1024}
    measured = Window(span, metrics, result=loaded or result(), died=given["died"], load_s=2.0)
    settings = Settings(traffic=TrafficSpec(transport=given.get("transport", "udp")), rig=given.get("rig", RigSpec()))
    return ValidityInput(measured, seen or telemetry(), settings, given["network"], receives_load=True)


def test_a_good_window_is_valid() -> None:
    assert reasons() == validity.latency_reasons(window()) == []


@pytest.mark.parametrize(
    ("seen", "loaded", "change", "reason"),
    [
        (
            {},
            {"wrong": 100, "wrong_examples": ["a A: expected NOERROR, got SERVFAIL"]},
            {},
            "100 of 10000 answers are wrong (a A:",
        ),
        ({"queries": 4950}, {"sent": 9_900}, {}, "the generator sent 99.00% of its schedule"),
        (
            {},
            {"schedule_error_p99_us": 50_000.0},
            {},
            "the generator was 50000 µs off its schedule (99 %), 100 µs are allowed",
        ),
        ({}, {"invalid": ["it said so"]}, {}, "it said so"),
        ({"client_drops": 5}, {}, {}, "the generator lost answers"),
        ({"steal": 0.05}, {}, {}, "the hypervisor took"),
        ({"io": 0.2}, {}, {}, "something waited for a disk 20% of the time"),
        ({"late": 1.0}, {}, {}, "telemetry came 1.0 s late"),
        ({}, {}, {"own_cores": 0.5}, "other programs used 0.30 CPUs"),
        ({}, {}, {"died": True}, "the server died"),
        ({"queries": 4900}, {}, {}, "the generator counts 10000 queries, the server's kernel 9800 packets"),
        ({"answers": 4900}, {}, {}, "the generator counts 10000 answers, its kernel 9800 packets"),
        ({"listen_drops": 2}, {}, {}, "4 connections were dropped at the server's listen queue"),
        ({}, {"answered": 8000, "late_answers": 2000}, {}, "2000 answers came after the load, from buffers drained"),
        ({}, {"receive_drops": 1}, {}, "the generator lost answers"),
        ({}, {}, {"server_cpu_s": 2.3}, "the server used 1.15 of 1 cores: it worked on after the load"),
        (
            {"server_waits": 0.1},
            {},
            {"own_cores": 0.75},
            "the server waited for its CPU 10% of the time, while other programs used 0.05 CPUs",
        ),
        ({}, {}, {"receive_buffer": 1 << 20}, "the server's receive buffer is 1024 KiB, that of the others 4096 KiB"),
    ],
)
def test_each_fault_breaks_only_its_rule(
    seen: dict[str, Any], loaded: dict[str, Any], change: dict[str, Any], reason: str
) -> None:
    found = reasons(telemetry(**seen), result(**loaded), **change)
    assert len(found) == 1 and reason in found[0]


def test_the_cpus_of_the_server_are_those_of_its_host() -> None:
    """Those of an inventory replace those of the experiment: a server on four CPUs must not use "2.30 of 1 cores"."""
    assert reasons(server_cpu_s=4.6, network=rig(server_cpus=[0, 1, 2, 3])) == []


@pytest.mark.parametrize(
    ("server_cpu_s", "network", "cost_us"),
    [
        (0.8, rig(), 80.0),  # a CPU that is busy for 0.8 s, for 10,000 answers
        (0.8, rig(server_cpus=[0, 1], load_cpus=[]), 160.0),
        (0.8, rig(load_cpus=[0]), None),
        (0.1, rig(), None),
    ],
)
def test_the_time_of_the_servers_cpus_is_a_cost_only_if_the_server_uses_them(
    server_cpu_s: float, network: Network, cost_us: float | None
) -> None:
    """At 200 queries per second it is 107 to 210 µs per answer of a server that uses half of that (E33)."""
    found = processor_metrics(telemetry(), network, window(server_cpu_s=server_cpu_s).window)
    assert found.get("processor_us_per_query") == (cost_us and pytest.approx(cost_us, abs=1))


def test_a_window_of_echo_that_is_invalid_has_no_valid_latency() -> None:
    limits = Limits(echo_qps=5000.0, generator_qps=5000.0, measured="", traffic={})
    checked = window(loaded=result(schedule_error_p99_us=60_000.0))
    limits.add(checked)
    (why,) = limits.latency_reasons[traffic_key(checked.settings)]
    assert "off its schedule" in why


@pytest.mark.parametrize(("rps_cpus", "found"), [([1], []), ([], ["other programs used 0.30 CPUs"])])
def test_softirqs_that_rps_steers_do_not_disturb_a_window_of_echo(rps_cpus: list[int], found: list[str]) -> None:
    """They belong to the experiment, and a disturbance is one for the limits and for the latencies."""
    limits = Limits(echo_qps=5000.0, generator_qps=5000.0, measured="", traffic={})
    checked = window(telemetry(softirq=0.15), own_cores=0.5, rig=RigSpec(rps_cpus=rps_cpus))
    limits.add(checked)
    assert limits.disturbed == limits.latency_reasons[traffic_key(checked.settings)] == found
    assert validity.disturbances(checked) == validity.reasons(checked) == found


def test_echo_has_every_latency_of_its_window() -> None:
    """None of the six latencies must be dropped: reports show echo's value beside each."""
    limits = Limits(echo_qps=5000.0, generator_qps=5000.0, measured="", traffic={})
    checked = window()
    values = {name: 50.0 for name, metric in METRICS.items() if metric.is_latency}
    checked.window.metrics |= values
    limits.add(checked)
    assert limits.windows[traffic_key(checked.settings)] == values


TOO_FEW = "the generator counts 420000 octets of queries, the server's kernel 410000 octets"
TOO_MANY = "the generator counts 420000 octets of queries, the server's kernel 430000 octets"
NO_ANSWERS = "the generator counts 1020000 octets of answers, its kernel 1000000 octets"


@pytest.mark.parametrize(
    ("transport", "seen", "found"),
    [
        ("tcp", {}, []),
        ("tcp", {"query_octets": 205_000}, [TOO_FEW]),
        ("tcp", {"query_octets": 215_000}, [TOO_MANY]),
        ("tcp", {"answer_octets": 500_000}, [NO_ANSWERS]),
        ("tls", {"query_octets": 215_000, "answer_octets": 600_000}, []),
        ("tls", {"query_octets": 205_000}, [TOO_FEW]),
        ("tls", {"answer_octets": 500_000}, [NO_ANSWERS]),
    ],
)
def test_octets_over_tcp_are_those_that_the_kernels_received(
    transport: str, seen: dict[str, float], found: list[str]
) -> None:
    """10,000 queries of 40 octets and answers of 100, each after its length; TCP needs a second count as UDP does."""
    loaded = result(query_octets=400_000, response_octets=1_000_000)
    assert reasons(telemetry(**seen), loaded, transport=transport) == found
    for lossy in (RigSpec(loss_percent=1.0), RigSpec(path_mtu=1400)):
        assert reasons(telemetry(**seen), loaded, transport=transport, rig=lossy) == []
    assert reasons(telemetry(**seen), result(), transport=transport) == []  # dnsperf counts no octets


@pytest.mark.parametrize(
    ("seen", "loaded", "reason"),
    [
        ({"load_waits": 0.05}, {}, "the generator waited for its CPU 5% of the time"),
        ({}, {"busy": 0.95}, "the generator was 95% busy: no headroom for latencies"),
    ],
)
def test_a_generator_without_headroom_invalidates_only_latency(
    seen: dict[str, Any], loaded: dict[str, Any], reason: str
) -> None:
    checked = window(telemetry(**seen), result(**loaded))
    assert validity.reasons(checked) == []
    assert validity.latency_reasons(checked) == [reason]


def test_a_window_without_two_samples_is_invalid_however_short() -> None:
    seen = Telemetry({}, telemetry().samples[:1])
    assert reasons(seen, seconds=0.3, network=rig(is_isolated=False)) == ["no telemetry"]


LATE = "9 of 10 queries left more than 1 ms after their time"


@pytest.mark.parametrize("wrong", [0, 3])
def test_a_schedule_error_of_milliseconds_invalidates_only_latency(wrong: int) -> None:
    late = result(schedule_error_p99_us=3000.0, invalid=[f"player 2: {LATE}"], wrong=wrong)
    assert len(reasons(loaded=late)) == (wrong > 0)
    expected = ["the generator was 3000 µs off its schedule (99 %), 100 µs are allowed"]
    assert validity.latency_reasons(window(loaded=late)) == [f"player 2: {LATE}", *expected]


def test_unsent_or_late_queries_invalidate_the_window() -> None:
    assert reasons(telemetry(queries=4500), result(schedule_error_p99_us=3000.0, sent=9_000)) == [
        "the generator sent 90.00% of its schedule"
    ]
    far = result(schedule_error_p99_us=50_000.0, invalid=[LATE])
    assert LATE in reasons(loaded=far) and validity.latency_reasons(window(loaded=far)) == []


def test_a_slow_server_may_be_measured_with_a_coarser_schedule() -> None:
    assert validity.latency_reasons(window(loaded=result(schedule_error_p99_us=300.0), latency_p50_us=5000.0)) == []


def test_drops_at_the_server_do_not_invalidate() -> None:
    assert reasons(telemetry(server_drops=500)) == []


def test_rates_and_shares_are_computed_from_counters() -> None:
    seen = telemetry(server=0.4, server_drops=50)
    assert seen.used_cores("server").mean() == pytest.approx(0.4, abs=0.01)
    assert seen.rate(net("server", "Udp.RcvbufErrors")).mean() == pytest.approx(50, abs=1)
    assert seen.grown(net("server", "TCP.tw")) == 20
    assert seen.busy_cores() == pytest.approx(0.8, abs=0.02)
    assert len(seen.between(101.0, 101.55).samples) == 6
    assert seen.around(101.05, 101.55).times.tolist() == pytest.approx([101.0 + i / 10 for i in range(7)])
    assert len(seen.around(99.0, 103.0).samples) == len(seen.samples)


def test_a_window_of_milliseconds_is_not_judged_by_single_ticks() -> None:
    """In 60 ms, one tick of 10 ms more must not seem to be a third of a CPU (E9)."""
    seen = telemetry(0.1)
    assert seen.tick_error_cores() == pytest.approx(0.4)
    assert validity.machine_reasons(seen, 0.1, own_cores=0.4) == []
    assert validity.machine_reasons(telemetry(), 2.0, own_cores=0.4) == ["other programs used 0.40 CPUs"]


def test_a_server_that_waits_for_its_own_writes_is_not_disturbed() -> None:
    """Windows with a slow fsync must not be lost: the median would be that of the fast ones (E9)."""
    assert reasons(telemetry(io=0.2, server_disk=4096)) == []
    assert reasons(telemetry(io=0.2, load_disk=4096)) == ["something waited for a disk 20% of the time"]


def test_a_disk_that_stands_still_is_not_the_work_of_a_server_that_uses_it() -> None:
    """While a disk stalls, 1,000 zones may take 12.1 s instead of 0.1, though the server stores 7 MB (E15)."""
    assert reasons(telemetry(io=0.9, server_disk=400_000)) == ["something waited for a disk 90% of the time"]
    assert reasons(telemetry(io=0.9, server_disk=4_000_000)) == []


def test_ticks_that_always_hit_periodic_work_are_bounded_by_the_measured_idle_time() -> None:
    """Ticks 4 ms apart may charge 1,000 handshakes a second 1.2 busy CPUs of 2, with both CPUs 80 % idle."""
    seen = telemetry()
    for i, sample in enumerate(seen.samples):
        t = i / 10
        sample["cpu"] = [[ticks(t, 0.9), 0, 0, ticks(t, 0.8), 0, 0, 0, 0]] * 2
    assert seen.busy_cores() == pytest.approx(0.4, abs=0.02)
    assert reasons(seen, own_cores=0.4) == []


@pytest.mark.parametrize(
    ("traffic", "seen", "is_still"),
    [
        ({}, {}, False),
        ({}, {"latency_us": 1_000.0}, True),
        ({}, {"latency_us": 1_000.0, "lost": 40}, True),  # the mean is 40 ms, too
        ({}, {"latency_us": 1_000.0, "busy": 0.95}, False),  # the generator could not ask soon enough
        ({}, {"latency_us": 1_000.0, "latency_intended": ""}, False),  # another generator's
        ({"loop": "open"}, {"latency_us": 1_000.0}, False),
        ({"transport": "tcp"}, {"latency_us": 1_000.0, "handshakes": 1_000, "connect_mean_us": 40_000.0}, True),
        ({"transport": "quic"}, {"latency_us": 1_000.0, "handshakes": 100, "connect_mean_us": 40_000.0}, False),
        ({"transport": "quic", "queries_per_connection": 1}, {"latency_us": 3_000.0}, False),  # one on each
    ],
)
def test_a_closed_loop_has_its_queries_outstanding(
    traffic: dict[str, Any], seen: dict[str, Any], is_still: bool
) -> None:
    """5,000 queries a second fill the 200 places if they take 40 ms each; with 1 ms they fill 5."""
    latency_us, lost = seen.pop("latency_us", 40_000.0), seen.pop("lost", 0)
    latency = LatencyHistogram()
    for us in [latency_us] * 1_000 + [1_000_000.0] * lost:
        latency.add(us)
    given = {"answered": 1_000, "sent": 1_000 + lost, "seconds": 0.2, "latency_intended": latency.encoded()}
    spec = TrafficSpec(**{"loop": "closed", "outstanding": 200, "connections": 20, **traffic})
    found = validity._standstill(spec, result(**{**given, "latency_mean_us": latency.mean, **seen}))
    assert bool(found) is is_still, found


def test_saturated_resources_are_listed_in_order() -> None:
    assert saturated(telemetry()) == []
    found = saturated(telemetry(server=0.99, server_drops=100))
    assert [what for _, what in found] == [
        "server: thread main of server uses its whole core",
        "the server's socket buffers overflow",
    ]


def test_the_published_port_exhaustion_is_predicted() -> None:
    """ISC: 28 thousand ports, 60 s of TIME_WAIT; the fastest of ten runs with 30,000 zones took 66 s."""
    ports = "32768\t60999\n"
    default = usable_tuples(ports, time_wait_buckets=262_144)
    assert default == ports_in(ports) == 28_232
    assert default / TIME_WAIT_S == pytest.approx(470.5, abs=0.1)
    assert [shortest_s(zones, default) for zones in (28_232, 30_000, 100_000)] == [0, 60, 180]
    assert shortest_s(30_000, default) <= 66
    assert shortest_s(30_000, usable_tuples(ports, destinations=4)) == 0
    assert shortest_s(30_000, usable_tuples(ports, time_wait_buckets=1_000)) == 0


def test_a_busy_machine_disturbs_and_a_wrong_answer_does_not() -> None:
    busy = reasons(telemetry(busy=0.9, queries=4500), result(sent=9_000))
    assert len(busy) == 2 and disturbed(busy)
    assert not disturbed([*busy, *reasons(loaded=result(wrong=3))])
    assert not disturbed([])


@pytest.mark.parametrize(
    ("delay_ms", "waits", "found"), [(20.0, 0.06, 0), (0.0, 0.06, 1), (20.0, 0.3, 1), (0.2, 0.06, 1)]
)
def test_the_program_of_a_delayed_link_does_not_exclude_latencies(delay_ms: float, waits: float, found: int) -> None:
    """It shares the generator's CPU: waits of 72 µs per answer, of 20 ms, must not invalidate latencies (E21)."""
    checked = window(telemetry(load_waits=waits), result(sent=2_000, answered=2_000, scheduled=2_000))
    checked = dataclasses.replace(checked, settings=Settings(rig=RigSpec(delay_ms=delay_ms)))
    assert len(validity.latency_reasons(checked)) == found
