import dataclasses

import numpy as np
import pytest
from conftest import Make, blocks

from zonda_lab.analysis import analysis, claims, effects
from zonda_lab.experiments.definition import AnalysisSpec, Claim
from zonda_lab.report.document import Table
from zonda_lab.report.result_tables import EchoReference, metric_tables
from zonda_lab.results.settings_bounds import with_bounds
from zonda_lab.statistics import ratio_effect

SPEC = AnalysisSpec(metric="cpu_us_per_query", compare="server.name", baseline="nsd", metrics=["answered_qps"])


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
    effect = ratio_effect.paired_effect([1.0, 1.1, 0.9, 1.0, 1.05], [2.0, 2.1, 1.9, 2.0, 2.05], 0.02)
    assert effects.classify(effect, "answered_qps") == "better"
    assert effects.classify(effect, "cpu_us_per_query") == "worse"
    assert effects.classify(effect, "time_wait_max") == "different"


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
        claims.check_claim(records, claim)[0].n == 2
        and claims.check_claim(records[:2], claim)[0].outcome == "not measured"
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


def test_a_level_with_a_zero_is_named_as_without_a_ratio(make_record: Make) -> None:
    """It must not be missing in the table of comparisons."""
    drops = {"nsd": 5.0, "knot": 10.0, "zonda": 0.0}
    records = [make_record(b, server=s, udp_drops=n * (3 - b)) for b in range(4) for s, n in drops.items()]
    plan = AnalysisSpec(metric="udp_drops", compare="server.name", baseline="nsd")
    found = analysis.analyse([*records, *(make_record(b, server="bind", udp_drops=2.0) for b in (8, 9))], plan)[0]
    why = dict.fromkeys(("knot", "zonda"), "a value is not positive: no ratio") | {"bind": "fewer than 3 common starts"}
    assert found.strata[0].without_ratio == why
    table = next(
        p for p in metric_tables(found, plan, EchoReference(records)) if isinstance(p, Table) and "outcome" in p.head
    )
    assert {row[0]: row[-1] for row in table.rows} == why
    assert all(len(row) == len(table.head) for row in table.rows)


def test_censored_values_are_never_equal(make_record: Make) -> None:
    """Five starts with and without a setting, all without some zones after 8 s, must not be called equal (E14)."""
    plan = AnalysisSpec(metric="transfer_s", compare="tuning", baseline="default", margin=0.05)
    seconds = {"default": 8.01, "ports reused": 8.02, "more ports": 0.98, "1,000 buckets": 5.9}
    records = [
        make_record(block, tuning=tuning, transfer_s=took + 0.002 * block, zones_missing=200.0 if took > 8 else 0.0)
        for block in range(5)
        for tuning, took in seconds.items()
    ]
    found = analysis.analyse(records, plan)[0]
    comparisons = {c.level: c for c in found.strata[0].comparisons}
    assert comparisons["ports reused"].outcome == "inconclusive"
    assert (comparisons["ports reused"].effect.low, comparisons["ports reused"].effect.bound) == (0.0, "unknown")
    assert comparisons["more ports"].outcome == "better" and comparisons["more ports"].effect.bound == "at most"
    assert comparisons["more ports"].effect.low == 0.0
    assert found.strata[0].tukey == []  # tests of all pairs need values
    cells = {cell.levels["tuning"]: cell for cell in found.cells}
    assert cells["default"].bound == "at least" and cells["default"].high == float("inf")
    assert cells["more ports"].bound == ""
    claim = Claim("x", "y", "transfer_s", {"tuning": "more ports"}, {"tuning": "default"}, 0.0, 0.2)
    assert claims.check_claim(records, claim)[0].outcome == "confirmed"
    claim = Claim("x", "y", "transfer_s", {"tuning": "1,000 buckets"}, {"tuning": "default"}, 0.0, 0.2)
    assert claims.check_claim(records, claim)[0].outcome == "inconclusive"  # the ratio is at most 0.74


def test_a_median_is_censored_only_if_most_starts_are(make_record: Make) -> None:
    records = [make_record(b, transfer_s=float(b), zones_missing=float(b > 4)) for b in range(1, 7)]
    cell = analysis.tabulate(records, "transfer_s")[0]
    assert (cell.median, cell.bound, cell.high) == (3.5, "", float("inf"))
    most = [make_record(b, transfer_s=float(b), zones_missing=float(b > 2)) for b in range(1, 7)]
    assert analysis.tabulate(most, "transfer_s")[0].bound == "at least"


def test_a_rig_bound_rate_is_a_lower_bound_and_not_equivalent(make_record: Make) -> None:
    """Both at the limit of the generator: nothing is known of their ratio, so it must not be called equivalent."""
    records = [make_record(b, server=s, answered_qps=300_000.0 + b) for b in range(8) for s in ("nsd", "zonda", "knot")]
    for record in records:
        if record.treatment["server.name"] != "knot":
            record.bounds = {"answered_qps": "at least"}
    plan = AnalysisSpec(metric="answered_qps", compare="server.name", baseline="nsd")
    outcomes = {c.level: c.outcome for c in analysis.analyse(records, plan)[0].strata[0].comparisons}
    assert outcomes == {"zonda": "inconclusive", "knot": "inconclusive"}


def test_an_a_a_alarm_withholds_the_verdicts_of_its_stratum(make_record: Make) -> None:
    records = blocks(make_record, {"zonda": 0.9}, noise=0.005)
    for record in records:
        record.within = {"load": "10 %"}
        if record.copy:
            record.metrics["cpu_us_per_query"] *= 1.05
    records += [dataclasses.replace(r, within={"load": "100 %"}) for r in blocks(make_record, {"zonda": 0.9})]
    found = analysis.analyse(records, SPEC)[0]
    assert found.aa_control == (1, 2)
    assert [s.comparisons[0].outcome for s in found.strata] == ["withheld", "better"]
    claim = Claim("x", "y", "cpu_us_per_query", {"server.name": "zonda"}, {"server.name": "nsd"}, 0.8, 0.95)
    for load, outcome in (("10 %", "withheld"), ("100 %", "confirmed")):
        here = dataclasses.replace(claim, of={**claim.of, "load": load}, to={**claim.to, "load": load})
        assert claims.check_claim(records, here, found.aa_pairs)[0].outcome == outcome


def test_a_significant_difference_within_the_margin_withholds_nothing(make_record: Make) -> None:
    """Two runs of Knot with 12,823.4 and 12,824.5 octets per connection must not withhold a ratio of 0.05 (E32)."""
    sizes = {("knot", 0): 12_823.4, ("knot", 1): 12_824.5, ("zonda", 0): 653.0}
    records = [
        make_record(block, copy, server=server, bytes_per_connection=octets * (1 + 1e-6 * block))
        for block in range(6)
        for (server, copy), octets in sizes.items()
    ]
    plan = AnalysisSpec(metric="bytes_per_connection", compare="server.name", baseline="knot")
    found = analysis.analyse(records, plan)[0]
    assert found.aa_control == (1, 1) and not any(pair.alarm for pair in found.aa_pairs)
    assert [each.outcome for each in found.comparisons] == ["better"]


def test_costs_at_unequal_shares_of_answers_have_no_verdict(make_record: Make) -> None:
    """The CPU time per answer of a server that answers 64 % of the queries must not refute a claim (E6)."""
    shares = {"nsd": 1.0, "knot": 0.97, "zonda": 0.9995}
    costs = {"nsd": 3.0, "knot": 3.6, "zonda": 2.4}
    records = [
        make_record(block, server=server, cpu_us_per_query=costs[server] * (1 + 0.001 * block), answered_share=share)
        for block in range(8)
        for server, share in shares.items()
    ]
    found = analysis.analyse(records, SPEC)[0]
    assert {each.level: (each.outcome, each.effect.bound) for each in found.comparisons} == {
        "knot": ("inconclusive", "unequal"),
        "zonda": ("better", ""),
    }
    table = next(
        p for p in metric_tables(found, SPEC, EchoReference(records)) if isinstance(p, Table) and "outcome" in p.head
    )
    assert {row[0]: row[-1] for row in table.rows}["knot"] == "no verdict: unequal shares answered"
    assert all(len(row) == len(table.head) for row in table.rows)
    for server, outcome in (("knot", "inconclusive"), ("zonda", "refuted")):
        claim = Claim("x", "y", "cpu_us_per_query", {"server.name": server}, {"server.name": "nsd"}, 0.9, 1.1)
        assert claims.check_claim(records, claim)[0].outcome == outcome


def test_a_difference_below_the_minimum_detectable_effect_is_inconclusive() -> None:
    """Significant, but such a difference would be found in only half of all repetitions."""
    ratios = np.exp([0.011, 0.002, 0.014, 0.004, 0.016, -0.001, 0.012])
    effect = ratio_effect.paired_effect([1.0] * 7, list(ratios), 0.001)
    assert effect.p < 0.05 and effect.low > 1 and effect.ratio - 1 < effect.mde
    assert effects.classify(effect, "cpu_us_per_query") == "inconclusive"


def test_loss_is_compared_in_absolute_terms(make_record: Make) -> None:
    """Within a margin of 2 %, a loss of one query in a hundred must not be equivalent to none."""
    plan = AnalysisSpec(metric="answered_share", compare="server.name", baseline="nsd", margin=0.02)
    shares = {"nsd": 1.0, "same": 0.99999, "zonda": 0.99}
    records = [
        make_record(block, server=server, answered_share=share - 1e-5 * (block % 3))
        for block in range(8)
        for server, share in shares.items()
    ]
    outcomes = {c.level: c.outcome for c in analysis.analyse(records, plan)[0].strata[0].comparisons}
    assert outcomes == {"same": "equivalent", "zonda": "worse"}


def test_a_margin_of_points_is_not_one_of_their_exponential(make_record: Make) -> None:
    """A margin of 0.02 must not be tested, or printed, as 0.0198."""
    plan = AnalysisSpec(metric="softirq_share", compare="server.name", baseline="nsd")
    shares = {"nsd": 0.1, "inside": 0.1199, "outside": 0.1201}
    records = [make_record(b, server=server, softirq_share=share) for b in range(8) for server, share in shares.items()]
    found = analysis.analyse(records, plan)[0]
    assert {c.level: c.outcome for c in found.comparisons} == {"inside": "equivalent", "outside": "different"}
    table = next(
        p for p in metric_tables(found, plan, EchoReference(records)) if isinstance(p, Table) and "outcome" in p.head
    )
    assert table.rows[0][-1].startswith("equivalent within 2 points")


def test_a_peak_lies_between_the_last_passing_and_the_first_failing_rate(make_record: Make) -> None:
    records = [make_record(block, peak_100_qps=100_000.0) for block in range(6)]
    for record in records:
        record.detail["peaks"] = {"peak_100_qps": {"passed": 100_000.0, "failed": 103_000.0}}
    cell = analysis.tabulate(records, "peak_100_qps")[0]
    assert (cell.median, cell.low, cell.high, cell.bound) == (100_000.0, 100_000.0, 103_000.0, "")
    for record in records:
        record.detail["peaks"]["peak_100_qps"]["failed"] = None
    assert analysis.tabulate([with_bounds(record, {}) for record in records], "peak_100_qps")[0].bound == "at least"
