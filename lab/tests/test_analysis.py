from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from zonda_lab import analysis, statistics
from zonda_lab.experiment import AnalysisSpec, Claim
from zonda_lab.results import WindowRecord

Make = Callable[..., WindowRecord]
SPEC = AnalysisSpec(metric="cpu_us_per_query", compare="server.name", baseline="nsd", metrics=["answered_qps"])


def blocks(
    make_record: Make, ratios: dict[str, float], n: int = 12, noise: float = 0.01, seed: int = 3
) -> list[WindowRecord]:
    """Interleaved starts on a machine that drifts by 30 %; the baseline twice."""
    draw = np.random.default_rng(seed)
    records = []
    for block in range(n):
        machine = draw.lognormal(0, 0.3)
        for server, ratio in {**ratios, "nsd": 1.0}.items():
            for copy in (0, 1) if server == "nsd" else (0,):
                value = 3.0 * machine * ratio * draw.lognormal(0, noise)
                records.append(make_record(block, copy, server=server, cpu_us_per_query=value))
    return records


def test_a_difference_is_found_despite_drift(make_record: Make) -> None:
    found = analysis.analyse(blocks(make_record, {"knot": 1.08, "zonda": 0.7, "same": 1.0}), SPEC)[0]
    comparisons = {c.level: c for c in found.strata[0].comparisons}
    assert comparisons["knot"].outcome == "worse" and comparisons["knot"].effect.ratio == pytest.approx(1.08, abs=0.02)
    assert comparisons["zonda"].outcome == "better" and comparisons["zonda"].effect.ratio == pytest.approx(
        0.70, abs=0.02
    )
    assert comparisons["same"].outcome == "equivalent"
    assert [test.name for test in found.strata[0].omnibus] == ["Kruskal-Wallis", "Friedman"]
    assert (
        found.strata[0].omnibus[1].p < 0.001 < found.strata[0].omnibus[0].p
    )  # comparisons within blocks find it, rank tests over all starts do not


def test_the_a_a_control_compares_the_two_baselines(make_record: Make) -> None:
    assert analysis.analyse(blocks(make_record, {"knot": 1.1}), SPEC)[0].aa_control == (0, 1)


def test_more_is_better_for_rates() -> None:
    effect = statistics.paired_effect([1.0, 1.1, 0.9, 1.0, 1.05], [2.0, 2.1, 1.9, 2.0, 2.05], 0.02)
    assert analysis.classify(effect, 0.001, "answered_qps") == "better"
    assert analysis.classify(effect, 0.001, "cpu_us_per_query") == "worse"
    assert analysis.classify(effect, 0.001, "time_wait_max") == "different"


def test_only_an_equivalence_test_shows_equivalence(make_record: Make) -> None:
    noisy = analysis.analyse(blocks(make_record, {"same": 1.0}, n=4, noise=0.2), SPEC)[0]
    comparison = noisy.strata[0].comparisons[0]
    assert comparison.outcome == "inconclusive"
    assert comparison.effect.mde > 0.1
    few = analysis.analyse(blocks(make_record, {"knot": 1.5}, n=2), SPEC)[0]
    assert few.strata[0].comparisons[0].outcome == "too few starts"


def test_invalid_and_skipped_windows_do_not_count(make_record: Make) -> None:
    records = blocks(make_record, {"knot": 1.0})
    for record in records:
        if record.treatment["server.name"] == "knot":
            record.valid = False
    assert {cell.label for cell in analysis.tabulate(records, "cpu_us_per_query")} == {"nsd", "nsd (again)"}
    assert analysis.analyse(records, SPEC)[0].strata == []


def test_invalid_latency_excludes_only_latency_metrics(make_record: Make) -> None:
    records = [make_record(block, server="nsd", cpu_us_per_query=3.0, latency_p99_us=90.0) for block in range(4)]
    records[0].latency_reasons = records[1].latency_reasons = ["late"]
    assert len(analysis.tabulate(records, "cpu_us_per_query")[0].values) == 4
    assert sorted(analysis.tabulate(records, "latency_p99_us")[0].values) == [2, 3]
    plan = AnalysisSpec(metric="cpu_us_per_query", compare="server.name", metrics=["latency_p99_us"])
    assert [found.metric for found in analysis.analyse(records, plan)] == ["cpu_us_per_query", "latency_p99_us"]
    assert [found.metric for found in analysis.analyse(records[:2], plan)] == ["cpu_us_per_query"]
    claim = Claim("x", "y", "latency_p99_us", {"server.name": "nsd"})
    assert (
        analysis.check_claim(records, claim)[0].n == 2
        and analysis.check_claim(records[:2], claim)[0].outcome == "not measured"
    )


def test_levels_are_compared_within_otherwise_equal_conditions(make_record: Make) -> None:
    records = []
    for load, factor in (("10 %", 1.0), ("100 %", 5.0)):
        for record in blocks(make_record, {"knot": 1.2}, seed=4):
            record.within = {"load": load}
            record.metrics["cpu_us_per_query"] *= factor
            records.append(record)
    strata = analysis.analyse(records, SPEC)[0].strata
    assert [stratum.levels for stratum in strata] == [{"load": "10 %"}, {"load": "100 %"}]
    assert all(s.comparisons[0].effect.ratio == pytest.approx(1.2, abs=0.02) for s in strata)


def test_several_windows_of_one_start_are_one_value(make_record: Make) -> None:
    """The start is the unit of replication: three windows are no three samples."""
    records = [make_record(0, server="nsd", cpu_us_per_query=value) for value in (1.0, 2.0, 9.0)]
    cell = analysis.tabulate(records, "cpu_us_per_query")[0]
    assert cell.values == {0: 2.0}


def test_zero_values_are_not_compared_as_ratios(make_record: Make) -> None:
    records = [make_record(b, server=s, lost=0) for b in range(5) for s in ("nsd", "knot")]
    plan = AnalysisSpec(metric="lost", compare="server.name", baseline="nsd")
    found = analysis.analyse(records, plan)[0]
    assert found.cells[0].median == 0 and found.strata == []


@pytest.mark.parametrize(
    ("low", "high", "outcome"), [(1.05, 1.15, "confirmed"), (1.2, 1.5, "refuted"), (1.0999, 1.1001, "inconclusive")]
)
def test_claims_are_ratios_paired_by_block(make_record: Make, low: float, high: float, outcome: str) -> None:
    records = blocks(make_record, {"knot": 1.1}, n=30, noise=0.005, seed=11)
    claim = Claim("x", "y", "cpu_us_per_query", {"server.name": "knot"}, {"server.name": "nsd"}, low, high)
    done = analysis.check_claim(records, claim)[0]
    assert done.value == pytest.approx(1.1, abs=0.01)
    assert done.outcome == outcome


@pytest.mark.parametrize(("noise", "outcome"), [(0.2, "confirmed"), (0.01, "refuted")])
def test_a_claim_about_spreads_compares_them(make_record: Make, noise: float, outcome: str) -> None:
    draw = np.random.default_rng(7)
    scatter = {"pinned": 0.01, "free": noise}
    records = [
        make_record(
            block, copy, server="nsd", placement=level, cpu_us_per_query=3.0 * draw.lognormal(0, scatter[level])
        )
        for block in range(20)
        for level, copy in (("pinned", 0), ("pinned", 1), ("free", 0))
    ]
    claim = Claim("x", "y", "cpu_us_per_query", {"placement": "free"}, {"placement": "pinned"}, low=2.0, spread=True)
    done = analysis.check_claim(records, claim)[0]
    assert done.outcome == outcome and done.n == 20
    assert done.value == pytest.approx(noise / 0.01, rel=0.6) and done.low < done.value < done.high
    assert analysis.check_claim(records[:6], claim)[0].outcome == "not measured"  # of two blocks


def test_a_claim_without_measurements_is_not_measured(make_record: Make) -> None:
    claim = Claim("x", "y", "transfer_s", {"server.name": "bind"}, {})
    assert analysis.check_claim(blocks(make_record, {}), claim)[0].outcome == "not measured"
    absolute = Claim("x", "y", "cpu_us_per_query", {"server.name": "nsd"}, {}, 0.0, 100.0)
    assert analysis.check_claim(blocks(make_record, {}), absolute)[0].outcome == "confirmed"
