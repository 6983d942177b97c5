"""Values that a time-out, the schedule or a busy generator cut off are bounds, in new and in committed records."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from conftest import Make

from zonda_lab.analysis import analysis, claims
from zonda_lab.experiments.definition import AnalysisSpec, ChangeSpec, Claim, RigSpec, Settings, TrafficSpec
from zonda_lab.results.folder import Results
from zonda_lab.results.settings_bounds import peak_bounds, setting, with_bounds

RECORDS = Path(__file__).parents[1] / "records"
OPEN = {"settings": asdict(Settings(traffic=TrafficSpec(timeout_ms=200)))}


def test_a_quantile_of_time_outs_is_at_least_the_time_out(make_record: Make) -> None:
    """A server that loses 3 % of the queries must not have 1,000,340 µs (1,000,340 – 1,000,340) (E6)."""
    late = {"latency_p50_us": 90.0, "latency_p99_us": 200_340.0, "uncorrected_p99_us": 199_900.0}
    record = with_bounds(make_record(0, answered_share=0.97, latency_mean_us=6_000.0, **late), OPEN)
    assert record.metrics["latency_p99_us"] == 200_000.0
    assert record.bounds == {"latency_p99_us": "at least", "latency_mean_us": "at least"}


def test_time_outs_make_no_ratio(make_record: Make) -> None:
    """Two servers with a p99 of 1,000,340 µs must not be equivalent."""
    records = [
        with_bounds(make_record(block, server=server, latency_p99_us=value), OPEN)
        for block in range(8)
        for server, value in (("nsd", 200_340.0), ("knot", 200_340.0), ("zonda", 90.0 + block))
    ]
    plan = AnalysisSpec(metric="latency_p99_us", compare="server.name", baseline="nsd")
    found = {each.level: each for each in analysis.analyse(records, plan)[0].comparisons}
    assert (found["knot"].outcome, found["knot"].effect.bound) == ("inconclusive", "unknown")
    assert (found["zonda"].outcome, found["zonda"].effect.bound) == ("better", "at most")


def test_the_99th_percentile_of_answered_probes_is_a_bound_if_others_were_not_answered(make_record: Make) -> None:
    assert with_bounds(make_record(0, probe_p99_us=500.0, udp_answered_share=0.98), OPEN).bound("probe_p99_us")
    assert not with_bounds(make_record(0, probe_p99_us=500.0, udp_answered_share=1.0), OPEN).bounds


HELD = {
    "settings": asdict(Settings(change=ChangeSpec(connect_rate=10_000.0))),
    "factors": {
        "server.name": ["nsd"],
        "clients": {"idle": {"change": {"connections": 1_000}}, "tls": {"change": {"connect-rate": 1_000.0}}},
    },
}


@pytest.mark.parametrize(
    ("clients", "rate", "opened", "bounds"),
    [
        ("idle", 10_005.0, 1_000.0, {"connects_per_s", "connections_open"}),
        ("idle", 9_400.0, 999.0, {"connects_per_s"}),
        ("idle", 8_000.0, 1_000.0, {"connections_open"}),
        ("tls", 1_000.05, 5_000.0, {"connects_per_s"}),
    ],
)
def test_the_rate_of_the_schedule_is_a_lower_bound(
    make_record: Make, clients: str, rate: float, opened: float, bounds: set[str]
) -> None:
    """Servers must not be equivalent in rates and numbers of connections that the generator has chosen (E18, E32)."""
    record = with_bounds(make_record(0, clients=clients, connects_per_s=rate, connections_open=opened), HELD)
    assert record.bounds == dict.fromkeys(bounds, "at least")


def test_what_the_schedule_limits_is_not_equivalent(make_record: Make) -> None:
    records = [
        with_bounds(make_record(block, server=server, clients="idle", connects_per_s=10_000.0 + block), HELD)
        for block in range(6)
        for server in ("nsd", "knot")
    ]
    plan = AnalysisSpec(metric="connects_per_s", compare="server.name", baseline="nsd")
    found = analysis.analyse(records, plan)[0]
    assert [each.outcome for each in found.comparisons] == ["inconclusive"]
    assert {cell.bound for cell in found.cells} == {"at least"}


@pytest.mark.parametrize(
    ("busy", "share", "cpu", "loop", "is_bound"),
    [
        (0.95, 0.99, 0.90, "open", True),
        (0.85, 0.99, 0.90, "open", False),  # the generator had headroom
        (0.95, 1.0, 0.90, "open", False),  # nothing was lost
        (0.95, 0.75, 0.99, "open", False),  # the server would have lost queries with all of its CPU time, too
        (0.95, 0.99, 0.90, "closed", False),  # judged when it was measured
    ],
)
def test_a_loss_beside_a_busy_generator_is_an_upper_bound(
    make_record: Make, busy: float, share: float, cpu: float, loop: str, is_bound: bool
) -> None:
    """Windows whose generator is over 90 % busy, up to 64 ms off its schedule, must be marked (E1, E20)."""
    described = {"settings": asdict(Settings(traffic=TrafficSpec(loop=loop), rig=RigSpec(server_cpus=[0])))}  # type: ignore[arg-type]
    record = with_bounds(make_record(0, generator_busy=busy, answered_share=share, server_cpu=cpu, lost=9.0), described)
    kinds = dict.fromkeys(("answered_share", "answered_qps", "first_loss_qps"), "at least") | {"lost": "at most"}
    assert record.bounds == (kinds if is_bound else {})  # the first loss of a ramp was no bound
    assert bool(record.rig_bound) == is_bound


def test_the_last_queries_of_a_closed_loop_are_not_lost(make_record: Make) -> None:
    """100 of 20,000 queries may be answered after the window, as a handshake takes so long (E31)."""
    late = make_record(0, answered_share=0.995, lost=0.0, late_answers=100.0)
    assert late.served_share == 1.0
    assert make_record(0, answered_share=0.96, lost=300.0, late_answers=100.0).served_share == pytest.approx(0.97)
    assert make_record(0, answered_share=0.96).served_share == 0.96 and make_record(0).served_share == 1.0


def test_a_share_is_at_most_one(make_record: Make) -> None:
    records = [make_record(block, answered_share=0.99) for block in range(6)]
    for record in records:
        record.bounds = {"answered_share": "at least"}
    cell = analysis.tabulate(records, "answered_share")[0]
    assert (cell.low, cell.high, cell.bound) == (0.99, 1.0, "at least")


def test_a_setting_is_that_of_the_level() -> None:
    described = {
        "settings": {"traffic": {"timeout_ms": 1000, "loop": "open"}},
        "factors": {"traffic.timeout-ms": [50, 100]},
        "within": {"load": {"full": {"traffic": {"loop": "closed"}}, "low": {}}},
    }
    assert setting(described, {}, "traffic.timeout-ms") == 1000
    assert setting(described, {"traffic.timeout-ms": "50", "load": "low"}, "traffic.timeout-ms") == 50
    assert setting(described, {"traffic.timeout-ms": "70"}, "traffic.timeout-ms") == 70.0
    assert setting(described, {"load": "full"}, "traffic.loop") == "closed"
    assert setting(described, {"load": "low"}, "traffic.loop") == "open"
    assert setting({}, {"load": "low"}, "traffic.loop") is None


@pytest.mark.parametrize(
    ("name", "metric", "levels"),
    [
        ("e06-zones-records", "latency_p99_us", {"server.name": "nsd", "content": "1 zone of 100,000"}),
        ("e18-idle-connections", "connects_per_s", {"server.name": "bind", "clients": "15,000 idle"}),
        ("e32-idle-tls", "connections_open", {"server.name": "zonda"}),
    ],
)
def test_committed_values_that_were_cut_off_are_bounds(name: str, metric: str, levels: dict[str, str]) -> None:
    records = [r for r in Results(RECORDS / name).records() if levels.items() <= r.levels.items()]
    windows = [r for r in records if r.levels.get("traffic.rate") in (None, "60% of echo")]
    assert windows and {record.bound(metric) for record in windows} == {"at least"}


@pytest.mark.parametrize("name", ["e02-peak", "e04-windows-positive"])
def test_committed_bounds_of_searches_follow_from_their_trials(name: str) -> None:
    """They must be those that `zonda-load` reported when they were measured."""
    for record in Results(RECORDS / name)._stored():
        peaks = {metric: bound for metric, bound in record.bounds.items() if metric.startswith("peak_")}
        assert peak_bounds(record.detail) == peaks


def test_derived_bounds_are_not_written_into_the_records(tmp_path: Path, make_record: Make) -> None:
    results = Results(tmp_path / "r")
    results.create({"servers": {}, "experiments": {"E1": OPEN}})
    results.append(make_record(0, latency_p99_us=200_340.0))
    results.append(make_record(1, latency_p99_us=200_340.0))
    assert [record.bound("latency_p99_us") for record in results.records()] == ["at least", "at least"]
    results.remove_start(make_record(1).start)
    (line,) = results.lines.read_text().splitlines()
    stored = json.loads(line)
    assert stored["metrics"]["latency_p99_us"] == 200_340.0 and stored["bounds"] == {}


def test_a_claim_about_a_schedule_is_not_refuted(make_record: Make) -> None:
    records = [
        with_bounds(make_record(block, clients="idle", connects_per_s=10_000.0 + block), HELD) for block in range(6)
    ]
    claim = Claim("x", "y", "connects_per_s", low=50_000.0)
    assert claims.check_claim(records, claim)[0].outcome == "inconclusive"
