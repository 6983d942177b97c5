import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import Make
from test_validity import telemetry, ticks

from zonda_lab.errors import UnsupportedError
from zonda_lab.experiments.definition import Settings, TrafficSpec
from zonda_lab.load.result import LoadResult
from zonda_lab.measurement import validity
from zonda_lab.measurement.load_runner import LoadRunner
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.window import Window
from zonda_lab.procedures import peak, queries
from zonda_lab.results.settings_bounds import with_bounds
from zonda_lab.results.window_record import disturbed
from zonda_lab.telemetry.series import Telemetry


def trial(rate: float, answered: float, *void: str, busy: float = 0.5) -> dict[str, Any]:
    return {"rate": rate, "answered": answered, "void_because": list(void), "busy": busy}


@pytest.mark.parametrize(
    ("trials", "first_loss", "bound"),
    [
        ([trial(1000, 1.0), trial(2000, 0.99), trial(1500, 0.999)], 1500, ""),
        ([trial(1000, 1.0), trial(2000, 0.99), trial(1500, 0.999, busy=0.95)], 1500, "at least"),
        ([trial(1500, 0.99, busy=0.95), trial(1500, 0.999)], 1500, ""),  # one trial had headroom
        ([trial(1000, 1.0), trial(2000, 1.0), trial(4000, 0.5, "late")], 2000, "at least"),
        ([trial(1000, 1.0, "late")], None, ""),
    ],
)
def test_no_loss_bounds_the_rate_of_the_first_loss(
    make_record: Make, trials: list[dict[str, Any]], first_loss: float | None, bound: str
) -> None:
    """A server that loses nothing must not have 0, the worst value of a metric where higher is better."""
    window = Window(Span(), {})
    peak._add_first_loss(window, trials)
    assert window.metrics.get("first_loss_qps") == first_loss
    record = make_record(0, **window.metrics)
    record.detail["trials"] = trials
    assert with_bounds(record, {}).bound("first_loss_qps") == bound


@pytest.mark.parametrize(("rate", "first"), [("80%", "closed_loop"), ("80% of echo", "run"), (100.0, "run")])
def test_the_capacity_of_a_start_is_that_of_a_warm_server(rate: float | str, first: str) -> None:
    """A rate that is a share of it must not be needed for the warm-up: it would be measured before."""
    called: list[str] = []
    load = SimpleNamespace(
        closed_loop=lambda _, __, seconds: called.append("closed_loop") or seconds,
        job=lambda *_, **__: called.append("rate"),
        run=lambda _: called.append("run"),
    )
    harness = SimpleNamespace(settings=Settings(traffic=TrafficSpec(rate=rate)), load=load)
    queries.warm_up(cast(Any, harness), cast(Server, None))
    assert called == ([first] if first == "closed_loop" else ["rate", "run"])


@pytest.mark.parametrize(
    ("passed", "failed", "failure", "bound"),
    [
        ([0.6, 0.7], [0.8, 0.85], "unanswered", ""),
        ([0.6, 0.95], [0.8, 0.85], "unanswered", "at least"),
        ([0.6, 0.7], [0.95, 0.85], "unanswered", "at least"),  # only one trial failed with headroom
        ([0.6, 0.7], [0.95, 0.95], "generator", "at least"),
        ([0.6, 0.7], [0.95, 0.95], "wrong", ""),
        ([0.6, 0.7], [], None, "at least"),
    ],
)
def test_a_peak_that_the_generator_limited_is_a_bound(
    make_record: Make, passed: list[float], failed: list[float], failure: str | None, bound: str
) -> None:
    """Bounds of searches must be known to any lab that reads the records; the rules are those of `--find-peak`."""
    record = make_record(0, peak_100_qps=1000.0)
    record.detail["trials"] = [trial(1000, 1.0, busy=busy) for busy in passed]
    record.detail["trials"] += [trial(1030, 0.9, busy=busy) for busy in failed] + [trial(1030, 0.9, "late")]
    failed_rate = 1030.0 if failed else None
    record.detail["peaks"] = {"peak_100_qps": {"passed": 1000.0, "failed": failed_rate, "failure": failure}}
    found = with_bounds(record, {})
    assert found.bound("peak_100_qps") == bound
    assert bool(found.rig_bound) == bool(failed and bound)


@pytest.mark.parametrize(("limit", "bound"), [(1100.0, "at least"), (1200.0, "")])
def test_a_capacity_near_the_limit_of_the_generator_is_a_bound(make_record: Make, limit: float, bound: str) -> None:
    """Rates of 94 to 100 % of what the generator can send must not be printed as the capacity of a server (E4)."""
    record = with_bounds(make_record(0, capacity_qps=1000.0, generator_qps=limit), {})
    assert record.bound("capacity_qps") == bound


@pytest.mark.parametrize(
    ("ramp", "first_loss", "bound"),
    [
        ([(1000.0, 1.0), (2000.0, 0.999), (3000.0, 0.9)], 2000.0, None),
        ([(3000.0, 0.9), (2000.0, 0.999), (1000.0, 1.0)], 2000.0, None),  # a falling rate
        ([(1000.0, 1.0), (2000.0, 1.0)], 2000.0, "at least"),
        ([], None, None),
    ],
)
def test_the_first_loss_of_a_ramp_is_the_lowest_rate_with_one(
    ramp: list[tuple[float, float]], first_loss: float | None, bound: str | None
) -> None:
    window = Window(Span(), {})
    queries._add_ramp(window, ramp)
    assert (window.metrics.get("first_loss_qps"), window.bounds.get("first_loss_qps")) == (first_loss, bound)
    assert window.detail["ramp"] == ramp


@pytest.mark.parametrize(("busy", "bounds"), [(0.95, {"capacity_qps": "at least"}), (0.5, {})])
def test_a_capacity_limited_by_the_generator_is_a_bound(
    busy: float, bounds: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Any = SimpleNamespace()
    load = LoadRunner(nothing, nothing, Path(), (), nothing, nothing, None)
    monkeypatch.setattr(load, "closed_loop", lambda *_: LoadResult(200, 200, 2.0, busy=busy))
    settings = Settings(traffic=TrafficSpec(rate="50%"))
    assert load.capacity(settings, nothing) == 100.0
    assert load.capacity_bounds(settings, nothing) == bounds


def test_a_peak_search_needs_one_player() -> None:
    """On one player of a fleet, the limit of that player would be reported as that of the server."""
    several: Any = SimpleNamespace(players=[SimpleNamespace(name="player1"), SimpleNamespace(name="player2")])
    nothing: Any = SimpleNamespace()
    load = LoadRunner(nothing, several, Path(), (), nothing, nothing, None)
    with pytest.raises(UnsupportedError, match="a peak search runs on one player, the inventory has 2"):
        load.find_peak(nothing, ["99"], 0.05, 1.0)


def burst(began: float) -> Telemetry:
    """Telemetry of ten seconds, in whose last second from `began` another program uses half a CPU of two."""
    seen = telemetry(10.0)
    for sample in seen.samples:
        user, idle = ticks(max(0.0, min(1.0, sample["t"] / 1e9 - began)), 0.5), sample["cpu"][0][3]
        sample["cpu"] = [[sample["cpu"][0][0] + user, 0, 0, idle - user, 0, 0, 0, 0], sample["cpu"][1]]
    return seen


def test_a_burst_in_the_trial_that_ends_the_search_invalidates_it() -> None:
    """In the mean over the search, a second of half a CPU is 0.05 CPUs."""
    seen, span = burst(109.0), Span(began=100.0, ended=110.0, own_cpu_s=8.0)
    assert validity.machine_reasons(seen, 10.0, own_cores=0.8) == []
    assert peak._disturbed_trials(seen, span, [(1000.0, 101.0, 102.0)]) == []
    found = peak._disturbed_trials(seen, span, [(1000.0, 101.0, 102.0), (2000.0, 109.0, 110.0)])
    assert len(found) == 1 and found[0].startswith("trial at 2,000 queries per second: other programs used 0.5")
    assert disturbed(found)


@pytest.mark.parametrize(
    ("trials", "cost"),
    [
        ([trial(1000, 1.0), trial(2000, 1.0), trial(2000, 0.99), trial(4000, 0.5)], 200.0),
        ([trial(2000, 1.0, "late"), trial(4000, 0.5)], None),
    ],
)
def test_the_cost_of_an_answer_is_that_at_the_peak(trials: list[dict[str, Any]], cost: float | None) -> None:
    """Where the generator limits peaks, as 12 of 15 in E2, answers per CPU second must be recorded."""
    window = Window(Span(began=100.0, ended=110.0), {"peak_100_qps": 2000.0})
    times = [{"since": int((101 + n) * 1e9), "until": int((102 + n) * 1e9)} for n in range(len(trials))]
    trials = [each | time for each, time in zip(trials, times, strict=True)]
    peak._add_cost(window, trials, telemetry(10.0), lambda ns: ns / 1e9)  # of a server that uses 0.4 of a core
    assert window.metrics.get("cpu_us_per_query") == (pytest.approx(cost) if cost else None)
    assert window.metrics.get("answers_per_cpu_s") == (pytest.approx(1e6 / cost) if cost else None)


def search(monkeypatch: pytest.MonkeyPatch, transport: str = "udp", **counts: int) -> Window:
    """A search whose trials sent and answered so many queries; each kernel received 10,000 packets."""
    more = {"peaks": [{"percent": 100.0, "rate": 1000.0, "failed_rate": None, "failure": None}]}
    found = LoadResult(**{"sent": 10_000, "answered": 10_000, "seconds": 2.0, **counts}, more=more)
    load = SimpleNamespace(
        capacity=lambda *_: 1000.0,
        capacity_bounds=lambda *_: {},
        job=lambda *_, **__: None,
        find_peak=lambda *_: (found, []),
    )
    observer = SimpleNamespace(clock=lambda _: lambda ns: ns / 1e9, observed=lambda _: telemetry())
    span = Span(began=100.0, ended=102.0)
    harness: Any = SimpleNamespace(
        load=load,
        observer=observer,
        network=SimpleNamespace(is_isolated=True, client=None),
        span=lambda _: contextlib.nullcontext(span),
        settle_sockets=lambda *_, **__: None,
    )
    monkeypatch.setattr(peak, "window_of", lambda _, span, metrics: Window(span, metrics))
    return peak.searched(harness, cast(Server, None), Settings(traffic=TrafficSpec(transport=transport)))


def test_the_counts_of_a_search_are_those_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches must be checked as windows of one rate are (E2, E4)."""
    assert search(monkeypatch).invalid == search(monkeypatch, answered=9_000, late_answers=1_000).invalid == []
    (sent,) = search(monkeypatch, sent=11_000).invalid
    assert sent == "the generator counts 11000 queries, the server's kernel 10000 packets"
    (answered,) = search(monkeypatch, answered=11_000).invalid
    assert answered == "the generator counts 11000 answers, its kernel 10000 packets"
    assert search(monkeypatch, transport="tcp", sent=11_000).invalid == []  # whose messages are no packets


def test_trials_that_lost_queries_at_the_failed_rates_decide() -> None:
    peaks = {"peak_100_qps": {"failed_rate": 2000.0}, "peak_99_qps": {"failed_rate": None}}
    trials = [trial(1000, 0.9), trial(2000, 1.0), trial(2000, 0.9), trial(2000, 0.9, "late")]
    assert [each for each in trials if peak._decides(each, peaks)] == [trials[2]]
