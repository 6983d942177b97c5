from __future__ import annotations

from collections.abc import Callable

from zonda_lab.analysis import beside, checks, finding
from zonda_lab.experiment import AnalysisSpec, Claim, Published
from zonda_lab.report.conclusion import shown
from zonda_lab.results import WindowRecord

Make = Callable[..., WindowRecord]
ANALYSIS = AnalysisSpec(metric="cpu_us_per_query", compare="server.name", baseline="nsd")
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.003)


def records(make: Make, blocks: int, **speed: float) -> list[WindowRecord]:
    return [
        make(block, server=name, cpu_us_per_query=3.0 * factor * NOISE[(block + len(name)) % 8])
        for block in range(blocks)
        for name, factor in {"nsd": 1.0, **speed}.items()
    ]


def test_what_differs_is_told_with_its_interval_and_what_does_not_is_not(make_record: Make) -> None:
    found = finding(records(make_record, 8, knot=1.3, zonda=1.0), "cpu_us_per_query", ANALYSIS)
    told = shown(found, [], ANALYSIS)
    assert told.startswith("Server CPU time per answer, as a ratio to nsd (n 8 starts): different: knot: 1.3")
    assert "zonda" in told.split("different:")[1].split(";", 1)[1]
    assert "equal within 2%: zonda" in told


def test_with_two_starts_nothing_is_called_different(make_record: Make) -> None:
    found = finding(records(make_record, 2, knot=2.0), "cpu_us_per_query", ANALYSIS)
    told = shown(found, [], ANALYSIS)
    assert "different:" not in told and "Fewer than 3 starts: differences may be chance." in told
    assert "nsd: 3" in told and "knot: 5.99" in told


def test_without_a_valid_window_it_says_so() -> None:
    assert shown(None, [], ANALYSIS) == "Nothing: no window was valid."


def test_a_claim_is_checked_for_each_server(make_record: Make) -> None:
    claim = Claim("it takes 3 µs", "3 µs", "cpu_us_per_query", low=2.8, high=3.2)
    done = checks(records(make_record, 5, knot=2.0), claim)
    assert [(each.server, each.outcome, each.n) for each in done] == [
        ("nsd", "confirmed", 5),
        ("knot", "not confirmed", 5),
    ]
    told = shown(finding(records(make_record, 5, knot=2.0), "cpu_us_per_query", ANALYSIS), done, ANALYSIS)
    assert "Published: it takes 3 µs (3 µs). Here: nsd 3.01, confirmed; knot 6, not confirmed." in told


def test_the_best_window_of_a_start_stands_beside_a_published_peak(make_record: Make) -> None:
    windows = [
        make_record(block, within={"traffic.rate": str(rate)}, answered_qps=min(rate, 150) * 1000)
        for block in range(3)
        for rate in (100, 200)
    ]
    cell = beside(windows, Published("peak", "140,000 answers a second", "answered_qps"))[0]
    assert (cell.label, cell.median, len(cell.values)) == ("nsd", 150_000, 3)
