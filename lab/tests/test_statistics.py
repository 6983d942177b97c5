"""Statistics match published values, or known parameters of generated samples."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from zonda_lab.statistics import ALPHA, group_tests, intervals, ratio_effect
from zonda_lab.statistics.ratio_effect import Effect

# Hollander and Wolfe 1973, as in R's kruskal.test: mucociliary efficiency; H = 0.77143, p = 0.68
MUCOCILIARY = {
    "normal": [2.9, 3.0, 2.5, 2.6, 3.2],
    "obstructive": [3.8, 2.7, 4.0, 2.4],
    "asbestosis": [2.8, 3.4, 3.7, 2.2, 2.0],
}
# Hollander and Wolfe 1973, as in R's friedman.test: rounding first base; chi squared = 11.143, p = 0.003805
BASE = [
    (5.40, 5.50, 5.55), (5.85, 5.70, 5.75), (5.20, 5.60, 5.50), (5.55, 5.50, 5.40), (5.90, 5.85, 5.70),
    (5.45, 5.55, 5.60), (5.40, 5.40, 5.35), (5.45, 5.50, 5.35), (5.25, 5.15, 5.00), (5.85, 5.80, 5.70),
    (5.25, 5.20, 5.10), (5.65, 5.55, 5.45), (5.60, 5.35, 5.45), (5.05, 5.00, 4.95), (5.50, 5.50, 5.40),
    (5.45, 5.55, 5.50), (5.55, 5.55, 5.35), (5.45, 5.50, 5.55), (5.50, 5.45, 5.25), (5.65, 5.60, 5.40),
    (5.70, 5.65, 5.55), (6.30, 6.30, 6.25),
]  # fmt: skip
# R's PlantGrowth (Dobson 1983); TukeyHSD there: p 0.3909 (trt1-ctrl), 0.1980 (trt2-ctrl), 0.0120 (trt2-trt1)
PLANTS = {
    "ctrl": [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
    "trt1": [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
    "trt2": [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
}


def exponentials(groups: dict[str, list[float]]) -> dict[str, list[float]]:
    """The module takes logarithms, so this exponentiates the published samples."""
    return {name: [math.exp(value) for value in values] for name, values in groups.items()}


def test_kruskal_wallis_as_published() -> None:
    found = group_tests.kruskal(MUCOCILIARY)
    assert (found.statistic, found.p) == (pytest.approx(0.77143, abs=1e-5), pytest.approx(0.68, abs=1e-3))


def test_friedman_as_published() -> None:
    columns = {str(i): {block: row[i] for block, row in enumerate(BASE)} for i in range(3)}
    found = group_tests.friedman(columns)
    assert found and (found.statistic, found.p) == (pytest.approx(11.143, abs=1e-3), pytest.approx(0.003805, abs=1e-6))


@pytest.mark.filterwarnings("error")
def test_a_group_without_variance_causes_no_warning() -> None:
    groups = {"a": [1.0, 1.1, 1.2], "b": [2.0, 2.0, 2.0 + 1e-15]}
    for pairs in (group_tests.dunnett(groups, "a"), group_tests.tukey(groups), group_tests.games_howell(groups)):
        assert len(pairs) == 1


def test_tukey_as_published() -> None:
    found = {(pair.a, pair.b): pair.p for pair in group_tests.tukey(exponentials(PLANTS))}
    assert found["ctrl", "trt1"] == pytest.approx(0.3909, abs=2e-4)
    assert found["ctrl", "trt2"] == pytest.approx(0.1980, abs=2e-4)
    assert found["trt1", "trt2"] == pytest.approx(0.0120, abs=2e-4)


def test_tukey_intervals_are_ratios_of_b_to_a() -> None:
    pair = next(pair for pair in group_tests.tukey(exponentials(PLANTS)) if (pair.a, pair.b) == ("trt1", "trt2"))
    assert math.log(pair.low) == pytest.approx(0.1738, abs=1e-3)  # TukeyHSD: 0.865, 0.1737839 to 1.5562161
    assert math.log(pair.high) == pytest.approx(1.5562, abs=1e-3)


def test_games_howell_of_two_groups_is_welchs_test() -> None:
    """With two groups the studentised range is sqrt(2) t."""
    pair = group_tests.games_howell(exponentials({"a": PLANTS["ctrl"], "b": PLANTS["trt2"][:6]}))[0]
    welch = stats.ttest_ind(PLANTS["ctrl"], PLANTS["trt2"][:6], equal_var=False)
    assert pair.p == pytest.approx(float(welch.pvalue), rel=1e-4)
    interval = welch.confidence_interval()
    assert math.log(pair.low) == pytest.approx(-interval.high, rel=1e-4)
    assert math.log(pair.high) == pytest.approx(-interval.low, rel=1e-4)


def test_games_howell_of_three_groups_by_hand() -> None:
    """Games and Howell 1976: q = difference / sqrt((v1/n1 + v2/n2) / 2), Welch's degrees of freedom."""
    pair = next(pair for pair in group_tests.games_howell(exponentials(PLANTS)) if (pair.a, pair.b) == ("trt1", "trt2"))
    a, b = np.array(PLANTS["trt1"]), np.array(PLANTS["trt2"])
    parts = a.var(ddof=1) / 10, b.var(ddof=1) / 10
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 9 + parts[1] ** 2 / 9)
    q = (b.mean() - a.mean()) / math.sqrt(sum(parts) / 2)
    assert pair.p == pytest.approx(float(stats.studentized_range.sf(q, 3, freedom)), rel=1e-6)
    assert (
        pair.p
        < 0.05
        < next(
            pair.p for pair in group_tests.games_howell(exponentials(PLANTS)) if (pair.a, pair.b) == ("ctrl", "trt1")
        )
    )


def test_dunn_by_hand_and_only_against_the_baseline() -> None:
    """Dunn 1964: difference of mean ranks over its standard error, without ties; Holm over k - 1, not all pairs."""
    groups = {"a": [1.0, 2.0, 3.0, 4.0], "b": [5.0, 6.0, 7.0, 8.0], "c": [9.0, 10.0, 11.0, 12.0]}
    error = math.sqrt(12 * 13 / 12 * (1 / 4 + 1 / 4))
    raw = [2 * stats.norm.sf(4 / error), 2 * stats.norm.sf(8 / error)]
    found = group_tests.dunn_to_baseline(groups, "a")
    assert [pair.b for pair in found] == ["b", "c"]
    assert [pair.p for pair in found] == [pytest.approx(raw[0]), pytest.approx(2 * raw[1])]


def test_dunnett_agrees_with_scipy_and_keeps_the_order() -> None:
    found = {pair.b: pair.p for pair in group_tests.dunnett(exponentials(PLANTS), "ctrl")}
    direct = stats.dunnett(PLANTS["trt1"], PLANTS["trt2"], control=PLANTS["ctrl"], rng=np.random.default_rng(1))
    assert found["trt1"] == pytest.approx(direct.pvalue[0], abs=2e-3)
    assert found["trt2"] == pytest.approx(direct.pvalue[1], abs=2e-3)


def test_brown_forsythe_is_levene_around_medians() -> None:
    found = group_tests.brown_forsythe(exponentials(PLANTS))
    published = pytest.approx(1.1192, abs=1e-4), pytest.approx(0.3412, abs=1e-4)  # R's car::leveneTest
    assert (found.statistic, found.p) == published


def test_holm_as_in_his_example() -> None:
    assert ratio_effect.holm([0.01, 0.04, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]


def test_hodges_lehmann_is_the_median_of_walsh_averages() -> None:
    assert intervals.hodges_lehmann([1.0, 2.0, 10.0]) == pytest.approx(3.75)  # averages 1, 1.5, 2, 5.5, 6, 10
    assert intervals.shift([1.0, 2.0], [4.0, 6.0]) == pytest.approx(3.5)  # differences 3, 2, 5, 4


def test_the_interval_of_an_effect_contains_the_true_value() -> None:
    """The machine drifts by 20 % between blocks; treatments differ by 5 %, with 2 % noise."""
    draw = np.random.default_rng(7)
    held = 0
    for _ in range(20):
        base = draw.lognormal(1.0, 0.2, 20)
        candidate = base * 1.05 * draw.lognormal(0.0, 0.02, 20)
        effect = ratio_effect.paired_effect(base, candidate, 0.02)
        held += effect.low < 1.05 < effect.high
        assert effect.p < 0.001 and not effect.equivalent and effect.mde < 0.03
    assert held >= 16  # of 19 expected
    unpaired = ratio_effect.unpaired_effect(list(base), list(candidate), 0.02)
    assert unpaired.p > 0.05  # without blocks the drift hides it
    assert unpaired.mde > 0.1


@pytest.mark.parametrize("n", [3, 5])
def test_intervals_of_few_blocks_have_nominal_coverage(n: int) -> None:
    """Of 300 runs 285 are expected; 273 is three sigma less. BCa intervals reach about 210 (n = 3) and 260 (n = 5)."""
    draw = np.random.default_rng(11)
    held = {"paired": 0, "unpaired": 0}
    for _ in range(300):
        base = draw.lognormal(0.0, 0.05, n)
        candidate = 1.03 * draw.lognormal(0.0, 0.05, n)
        for name, effect in (("paired", ratio_effect.paired_effect), ("unpaired", ratio_effect.unpaired_effect)):
            found = effect(base, candidate, 0.02)
            held[name] += found.low <= 1.03 <= found.high
    assert min(held.values()) >= 273, held


def test_equivalence_needs_enough_blocks() -> None:
    draw = np.random.default_rng(8)
    base = draw.lognormal(1.0, 0.2, 30)
    again = base * draw.lognormal(0.0, 0.01, 30)
    assert ratio_effect.paired_effect(base, again, 0.02).equivalent
    assert not ratio_effect.paired_effect(base[:4], again[:4] * np.array([0.9, 1.1, 0.9, 1.1]), 0.02).equivalent


def test_identical_samples_are_equal_without_any_warning() -> None:
    effect = ratio_effect.paired_effect([2.0] * 5, [2.0] * 5, 0.02)
    assert (effect.ratio, effect.p, effect.equivalent) == (1.0, 1.0, True)
    assert group_tests.kruskal({"a": [1.0, 1.0], "b": [1.0, 1.0]}).p == 1.0
    assert ratio_effect.unpaired_effect([2.0] * 5, [2.0] * 5, 0.02).equivalent


def test_the_false_alarm_rate_of_a_a_comparisons_is_nominal() -> None:
    """200 A/A comparisons of ten blocks: 10 (5 %) are expected to be significant; 22 is more than three sigma above."""
    draw = np.random.default_rng(9)
    firsts = [draw.lognormal(0, 0.1, 10) for _ in range(200)]
    seconds = [draw.lognormal(0, 0.1, 10) for _ in range(200)]
    alarms = sum(ratio_effect._paired_p(np.log(b) - np.log(a)) < ALPHA for a, b in zip(firsts, seconds, strict=True))
    assert alarms <= 22


def test_minimum_detectable_effect_follows_the_usual_rule() -> None:
    """n is about 8 (sigma / delta)^2 for 80 % power at 5 %."""
    assert ratio_effect.minimum_detectable(0.03, 18) == pytest.approx(0.02, abs=0.002)
    assert ratio_effect.minimum_detectable(0.03, 72) == pytest.approx(0.01, abs=0.0005)
    ratios = np.random.default_rng(1).normal(0, 0.03, 72)
    assert ratio_effect.paired_effect(np.ones(len(ratios)), np.exp(ratios), 0.02).mde == pytest.approx(0.01, abs=0.003)


def test_the_power_calculation_inverts_the_minimum_detectable_effect() -> None:
    for sigma, effect, comparisons in ((0.03, 0.02, 1), (0.03, 0.01, 1), (0.1, 0.05, 7)):
        blocks = ratio_effect.blocks_needed(sigma, effect, comparisons)
        assert blocks is not None
        assert ratio_effect.minimum_detectable(sigma, blocks, comparisons) <= effect
        assert ratio_effect.minimum_detectable(sigma, blocks - 1, comparisons) > effect
    assert ratio_effect.blocks_needed(0.03, 0.02) == 21  # 18 by the normal distribution instead of t
    assert ratio_effect.blocks_needed(1.0, 0.001) is None


def test_planned_blocks_have_the_planned_power() -> None:
    """A true effect of 2 % with 3 % noise in the planned 20 blocks: 80 % of 400 runs detect it, 296 is 3 sigma less."""
    draw = np.random.default_rng(5)
    blocks = ratio_effect.blocks_needed(0.03, 0.02) or 0
    runs = [np.log(1.02) + draw.normal(0, 0.03, blocks) for _ in range(400)]
    assert 296 <= sum(ratio_effect._paired_p(ratios) < ALPHA for ratios in runs) <= 344


@pytest.mark.parametrize(("n", "least"), [(3, 0.92), (4, 0.92), (5, 0.92), (6, 0.94), (9, 0.94), (20, 0.94)])
def test_the_interval_of_a_median_covers_it(n: int, least: float) -> None:
    """The true median of a lognormal sample is 1; BCa covers it in 75 % (n = 3) to 88 % (n = 5) of runs."""
    draw = np.random.default_rng(n)
    held = 0
    for _ in range(600):
        _, low, high = intervals.median_interval(list(draw.lognormal(0.0, 0.2, n)))
        held += low <= 1.0 <= high
    assert held / 600 >= least


def test_two_starts_have_no_interval_and_zeros_have_their_range() -> None:
    assert [math.isnan(each) for each in intervals.median_interval([1.0, 2.0])] == [False, True, True]
    assert intervals.median_interval([0.0, 1.0, 3.0]) == (1.0, 0.0, 3.0)
    assert intervals.median_interval([2.0] * 4) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("effect", [ratio_effect.paired_effect, ratio_effect.unpaired_effect])
@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_blocks_have_no_interval_of_a_ratio(effect: Callable[..., Effect], n: int) -> None:
    """One block must not have the interval 1.5 – 1.5."""
    found = effect([2.0] * n, [3.0] * n, 0.02)
    assert (found.ratio, found.low, found.high) == (pytest.approx(1.5), 0.0, math.inf)


def test_equivalence_and_detectable_effect_use_the_correction_of_the_test() -> None:
    """Eleven levels at the margin: without a correction one in four families has a level called equivalent."""
    draw = np.random.default_rng(1)
    wrong = 0
    for _ in range(150):
        base = 3.0 * draw.lognormal(0, 0.01, 7)
        levels = [3.0 * 1.02 * draw.lognormal(0, 0.01, 7) for _ in range(11)]
        effects = [ratio_effect.paired_effect(list(base), list(level), 0.02, 11) for level in levels]
        wrong += any(effect.equivalent for effect in ratio_effect.corrected(effects))
        assert effects[0].mde > 1.4 * ratio_effect.paired_effect(list(base), list(levels[0]), 0.02).mde
    assert wrong <= 15  # 7.5 expected at most, 15 is 2.7 sigma above


def test_friedman_pairs_blocks_by_name() -> None:
    """Three equal servers on a drifting machine, each without another block: by position a would be the slowest."""
    drift = {
        server: {b: 10.0**b for b in range(8) if b != missing} for server, missing in (("a", 0), ("b", 7), ("c", 3))
    }
    found = group_tests.friedman(drift)
    assert found and found.p == 1.0
    assert stats.friedmanchisquare(*(list(blocks.values()) for blocks in drift.values())).pvalue < 0.05
    assert group_tests.friedman({"a": {0: 1.0}, "b": {1: 2.0}, "c": {2: 3.0}}) is None


def test_outliers_by_the_modified_z_score() -> None:
    assert intervals.outliers([10.0, 10.1, 9.9, 10.2, 30.0]) == [4]
    assert intervals.outliers([10.0] * 5) == []


def test_the_fit_of_a_response_curve_is_decreasing() -> None:
    fitted = intervals.falling([30, 10, 20, 40], [0.9, 1.0, 0.8, 0.5])
    assert fitted.tolist() == [pytest.approx(0.85), 1.0, pytest.approx(0.85), 0.5]


def test_the_fit_of_a_response_curve_has_one_value_for_each_rate() -> None:
    """It fell within the points of one rate, whose order says nothing."""
    fitted = intervals.falling([188_045.0, 47_011.0, 188_041.0, 188_045.0], [0.75, 1.0, 0.84, 0.78])
    assert fitted.tolist() == [pytest.approx(0.79), 1.0, pytest.approx(0.79), pytest.approx(0.79)]


def test_the_minimum_detectable_ratio_of_spreads_is_found_in_four_of_five_runs() -> None:
    """Of normal samples, whose variances an F test compares."""
    n, runs, draw = 6, 20_000, np.random.default_rng(7)
    wider = 1 + ratio_effect.minimum_detectable_spread(n)
    spreads = [np.var(draw.normal(0, scale, (runs, n)), axis=1, ddof=1) for scale in (1.0, wider)]
    found = spreads[1] / spreads[0] > stats.f.ppf(1 - ALPHA / 2, n - 1, n - 1)
    assert float(np.mean(found)) == pytest.approx(0.8, abs=0.01)
    assert ratio_effect.minimum_detectable_spread(n, 4) > wider - 1
    assert ratio_effect.minimum_detectable_spread(1) == math.inf


@pytest.mark.parametrize("n", [4, 12])
def test_an_interval_of_one_comparison_of_five_is_wider(n: int) -> None:
    draw = np.random.default_rng(2)
    values, others = draw.lognormal(0, 0.1, n), draw.lognormal(0, 0.1, n)
    for made in (
        lambda alpha: intervals.interval(np.log(values), alpha),
        lambda alpha: intervals.median_interval(list(values), alpha)[1:],
        lambda alpha: intervals.variation_ratio(list(values), list(others), alpha)[1:],
    ):
        (low, high), (lower, higher) = made(ALPHA), made(ALPHA / 5)
        assert lower <= low <= high <= higher
        assert (lower, higher) != (low, high) or low == 0.0


def test_six_starts_cannot_cover_a_median_with_99_percent_by_their_order() -> None:
    """The index of the order statistic would be 0 - 1: the greatest value as the lower end."""
    low, high = intervals.median_interval([1.0, 1.1, 1.2, 1.3, 1.4, 1.5], 0.01)[1:]
    assert low < 1.25 < high
