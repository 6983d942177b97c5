"""Statistical tests, computed by scipy, scikit-posthocs and statsmodels.

A sample has one value per start (the unit of replication); a block contains every treatment once. Effects are ratios,
computed on logarithms, because all metrics are positive and noise is proportional.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scikit_posthocs
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats
from statsmodels.stats.libqsturng import qsturng
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

ALPHA = 0.05
POWER = 0.80
RESAMPLES = 10_000
# Below it, 95 % bootstrap intervals covered the true value in 70 % (n = 3) or 87 % (n = 5, 6) of runs.
MIN_BOOTSTRAP = 8
MIN_INTERVAL, MIN_ORDER_STATISTICS = 3, 6  # fewer starts: no interval of a median; none from order statistics
MOST_BLOCKS = 2_000
ROUNDING = 1e-12  # smaller differences of logarithms count as equal
SEED = 20_261
Floats = NDArray[np.float64]
Groups = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Effect:
    """Candidate over baseline: ratio, 95 % interval, p values and the minimum detectable effect (MDE).

    `p_not_lower` and `p_not_higher` are one-sided: small if the ratio is not below, or not above, the margin.
    """

    ratio: float
    low: float
    high: float
    p: float
    n: int
    paired: bool
    p_not_lower: float
    p_not_higher: float
    p_equivalence: float
    mde: float
    bound: str = ""  # "at least" or "at most" if values were only bounds; "unknown" if they leave the ratio open

    @property
    def equivalent(self) -> bool:
        """Whether the ratio is within the margin on both sides."""
        return self.p_equivalence < ALPHA


@dataclass(frozen=True)
class Test:
    """A named test: its statistic and p value."""

    name: str
    statistic: float
    p: float


@dataclass(frozen=True)
class PairwiseTest:
    """A comparison of two levels."""

    a: str
    b: str
    p: float
    low: float = math.nan
    high: float = math.nan


def paired_effect(baseline: Sequence[float], candidate: Sequence[float], margin: float, comparisons: int = 1) -> Effect:
    """Compares values paired by block: Hodges-Lehmann estimate of the log ratios, interval, Wilcoxon signed-rank test.

    With too few blocks for the signed-rank test to reach 5 % after correcting for `comparisons` (five or fewer blocks
    for one comparison), the p value is that of the paired t test. The p values are not corrected yet (`corrected`);
    the minimum detectable effect is that of a test at 5 % divided by `comparisons`.
    """
    ratios = np.log(np.asarray(candidate, float)) - np.log(np.asarray(baseline, float))
    sides, sigma = _one_sided_paired(ratios, margin), _standard_deviation(ratios)
    mde = minimum_detectable(sigma, len(ratios), comparisons)
    estimate, p = hodges_lehmann(ratios), _paired_p(ratios, comparisons)
    return _effect(estimate, interval(ratios), p, len(ratios), True, sides, mde)


def unpaired_effect(
    baseline: Sequence[float], candidate: Sequence[float], margin: float, comparisons: int = 1
) -> Effect:
    """Compares independent samples: Hodges-Lehmann shift of the logarithms, interval, Mann-Whitney test.

    With too few starts for the rank test to reach 5 % after correction, the p value is that of Welch's t test.
    """
    a, b = np.log(np.asarray(baseline, float)), np.log(np.asarray(candidate, float))
    n = min(len(a), len(b))
    bounds = _bootstrap_shift(a, b) if n >= MIN_BOOTSTRAP else _welch_shift(a, b)
    mde = minimum_detectable(math.sqrt(_variance(a) + _variance(b)), n, comparisons)
    p, sides = _unpaired_p(a, b, comparisons), _one_sided_unpaired(a, b, margin)
    return _effect(shift(a, b), bounds, p, n, False, sides, mde)


def corrected(effects: Sequence[Effect]) -> list[Effect]:
    """The effects of one family with Holm's correction of all their p values: difference, equivalence, one-sided."""
    kinds = ("p", "p_not_lower", "p_not_higher", "p_equivalence")
    columns = [holm([getattr(effect, kind) for effect in effects]) for kind in kinds]
    return [
        replace(effect, **dict(zip(kinds, row, strict=True)))
        for effect, row in zip(effects, zip(*columns, strict=True), strict=True)
    ]


def minimum_detectable(sigma: float, n: int, comparisons: int = 1) -> float:
    """Minimum detectable effect: (t(1 - alpha/2) + t(power)) sigma / sqrt(n), as a ratio minus one.

    With several comparisons alpha is divided by their number, the first and strictest step of Holm's correction.
    """
    if n < 2 or not math.isfinite(sigma):
        return math.inf
    quantiles = stats.t.ppf(1 - ALPHA / 2 / max(1, comparisons), n - 1) + stats.t.ppf(POWER, n - 1)
    return math.expm1(min(700.0, float(quantiles) * sigma / math.sqrt(n)))


def blocks_needed(sigma: float, effect: float, comparisons: int = 1) -> int | None:
    """Blocks that detect a relative effect with 80 % power, from the standard deviation of paired log ratios.

    None above `MOST_BLOCKS`.
    """
    enough = bisect.bisect_left(
        range(2, MOST_BLOCKS + 1), True, key=lambda n: minimum_detectable(sigma, n, comparisons) <= effect
    )
    return enough + 2 if enough + 2 <= MOST_BLOCKS else None


def hodges_lehmann(values: ArrayLike, axis: int = -1) -> Any:
    """The Hodges-Lehmann estimate along an axis: the median of all pairwise means."""
    x = np.moveaxis(np.asarray(values, float), axis, -1)
    first, second = np.triu_indices(x.shape[-1])
    return np.median((x[..., first] + x[..., second]) / 2, axis=-1)


def shift(a: ArrayLike, b: ArrayLike) -> float:
    """The median of all differences b - a."""
    return float(np.median(np.subtract.outer(np.asarray(b, float), np.asarray(a, float))))


def bca(values: Floats, statistic: Callable[..., Any] = np.median) -> tuple[float, float]:
    """The BCa bootstrap interval of a statistic; the range of the values where BCa is undefined."""
    if len(values) < 3 or np.ptp(values) == 0:
        return float(np.min(values)), float(np.max(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interval = stats.bootstrap(
            (values,),
            statistic,
            n_resamples=RESAMPLES,
            method="BCa",
            vectorized=True,
            batch=1000,
            rng=np.random.default_rng(SEED),
        ).confidence_interval
    low, high = float(interval.low), float(interval.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (float(np.min(values)), float(np.max(values)))


def interval(log_ratios: Floats) -> tuple[float, float]:
    """The interval of paired log ratios: BCa, or Student's t with few values, where a bootstrap is too narrow."""
    n = len(log_ratios)
    if n >= MIN_BOOTSTRAP or n < 2 or np.ptp(log_ratios) < ROUNDING:
        return bca(log_ratios, hodges_lehmann)
    reach = float(stats.t.ppf(1 - ALPHA / 2, n - 1) * np.std(log_ratios, ddof=1) / math.sqrt(n))
    return float(np.mean(log_ratios)) - reach, float(np.mean(log_ratios)) + reach


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median over starts and its interval; NaN below three starts.

    From six starts on, the narrowest symmetric order statistics that cover the median with at least 95 % (exact
    binomial). Five do not suffice for that: there it is Student's t interval of the logarithms, or the range if a value
    is zero.
    """
    x = np.sort(np.asarray(values, float))
    n, middle = len(x), float(np.median(x))
    if n < MIN_INTERVAL:
        return middle, math.nan, math.nan
    if n >= MIN_ORDER_STATISTICS:
        left_out = int(stats.binom.ppf(ALPHA / 2, n, 0.5))  # P(fewer than this many values below the median) < 2.5 %
        return middle, float(x[left_out - 1]), float(x[n - left_out])
    if x[0] <= 0 or not np.isfinite(x[-1]) or np.ptp(np.log(x)) < ROUNDING:
        return middle, float(x[0]), float(x[-1])
    logs = np.log(x)
    reach = float(stats.t.ppf(1 - ALPHA / 2, n - 1) * np.std(logs, ddof=1) / math.sqrt(n))
    return middle, math.exp(float(np.mean(logs)) - reach), math.exp(float(np.mean(logs)) + reach)


def kruskal(groups: Groups) -> Test:
    """Whether any group differs, ignoring blocks."""
    if len({value for values in groups.values() for value in values}) < 2:
        return Test("Kruskal-Wallis", 0.0, 1.0)
    found = stats.kruskal(*groups.values())
    return Test("Kruskal-Wallis", float(found.statistic), float(found.pvalue))


def friedman(groups: Mapping[str, Mapping[int, float]]) -> Test | None:
    """Whether any group differs, over the blocks that all groups have; None below three groups or blocks."""
    by_block = list(groups.values())
    common = set.intersection(*(set(group) for group in by_block)) if by_block else set()
    if len(by_block) < 3 or len(common) < 3:
        return None
    values = [[group[block] for block in sorted(common)] for group in by_block]
    if all(np.ptp(block) == 0 for block in zip(*values, strict=True)):
        return Test("Friedman", 0.0, 1.0)
    found = stats.friedmanchisquare(*values)
    return Test("Friedman", float(found.statistic), float(found.pvalue))


def dunn_to_baseline(groups: Groups, baseline: str) -> list[PairwiseTest]:
    """Dunn's test of each level against the baseline, with Holm's correction for these k - 1 comparisons."""
    names = list(groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if all values are tied it divides by zero
        table = scikit_posthocs.posthoc_dunn([list(values) for values in groups.values()], p_adjust=None)
    column = table.to_numpy()[names.index(baseline)]
    others = [name for name in names if name != baseline]
    raw = [float(np.nan_to_num(column[names.index(name)], nan=1.0)) for name in others]
    return [PairwiseTest(baseline, name, p) for name, p in zip(others, holm(raw), strict=True)]


def dunnett(groups: Groups, baseline: str) -> list[PairwiseTest]:
    """Dunnett's test of each level against the baseline, on means of logarithms."""
    others = [name for name in groups if name != baseline]
    if not has_variance(groups):
        return [PairwiseTest(baseline, name, math.nan) for name in others]
    logs = {name: np.log(values) for name, values in groups.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a group may have no variance
        found = stats.dunnett(*(logs[name] for name in others), control=logs[baseline], rng=np.random.default_rng(SEED))
    return [PairwiseTest(baseline, name, float(p)) for name, p in zip(others, np.atleast_1d(found.pvalue), strict=True)]


def tukey(groups: Groups) -> list[PairwiseTest]:
    """Tukey's HSD for all pairs, assuming equal variances; intervals are of the ratio b / a."""
    names = list(groups)
    if not has_variance(groups):
        return [PairwiseTest(a, b, math.nan) for a, b in itertools.combinations(names, 2)]
    found = stats.tukey_hsd(*(np.log(values) for values in groups.values()))
    low, high = found.confidence_interval()
    return [
        PairwiseTest(names[i], names[j], float(found.pvalue[i, j]), math.exp(-high[i, j]), math.exp(-low[i, j]))
        for i, j in itertools.combinations(range(len(names)), 2)
    ]


def games_howell(groups: Groups) -> list[PairwiseTest]:
    """Games-Howell test for all pairs with unequal variances: Welch's degrees of freedom, studentised range."""
    logs = {name: np.log(np.asarray(values, float)) for name, values in groups.items()}
    return [_games_howell_pair(a, b, logs[a], logs[b], len(logs)) for a, b in itertools.combinations(logs, 2)]


def brown_forsythe(groups: Groups) -> Test:
    """Whether variances differ: Levene's test around the medians of the logarithms."""
    if not has_variance(groups):
        return Test("Brown-Forsythe", 0.0, 1.0)
    found = stats.levene(*(np.log(values) for values in groups.values()), center="median")
    return Test("Brown-Forsythe", float(found.statistic), float(np.nan_to_num(found.pvalue, nan=1.0)))


def has_variance(groups: Groups) -> bool:
    """Whether any group varies; parametric tests need it."""
    return any(np.ptp(values) > 1e-9 * np.max(values) for values in groups.values())


def variation(values: Sequence[float]) -> float:
    """The coefficient of variation."""
    return float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 and np.mean(values) else 0.0


def variation_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of the coefficients of variation, candidate over baseline, with a bootstrap interval."""
    draw = np.random.default_rng(SEED)
    bottom, top = (
        np.std(drawn, axis=1, ddof=1) / np.mean(drawn, axis=1)
        for drawn in (draw.choice(values, (RESAMPLES, len(values))) for values in (baseline, candidate))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.nanquantile(top / bottom, [0.025, 0.975], method="nearest")
        return float(np.divide(variation(candidate), variation(baseline))), float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction; statsmodels' version runs the garbage collector at every call."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected.tolist()


def outliers(values: Sequence[float], limit: float = 3.5) -> list[int]:
    """Indices of values whose modified z score (Iglewicz and Hoaglin) exceeds the limit; none below five values."""
    x = np.asarray(values, float)
    deviation = np.abs(x - np.median(x))
    mad = np.median(deviation)
    return [] if mad == 0 or len(x) < 5 else [int(i) for i in np.flatnonzero(0.6745 * deviation / mad > limit)]


def falling(x: Sequence[float], y: Sequence[float]) -> Floats:
    """The decreasing isotonic fit, for a response rate over the offered rate."""
    order = np.argsort(x, kind="stable")
    fitted = np.empty(len(order))
    fitted[order] = optimize.isotonic_regression(np.asarray(y, float)[order], increasing=False).x
    return fitted


def exact_share(count: int, of: int) -> tuple[float, float]:
    """The exact 95 % interval (Clopper and Pearson) of a share."""
    found = stats.binomtest(count, of).proportion_ci(1 - ALPHA, method="exact")
    return float(found.low), float(found.high)


def _paired_p(ratios: Floats, comparisons: int = 1) -> float:
    if len(ratios) < 2:
        return 1.0
    if np.ptp(ratios) < ROUNDING:
        return 1.0 if abs(ratios[0]) < ROUNDING else 0.0
    if 2 * 0.5 ** len(ratios) * comparisons < ALPHA:
        return float(stats.wilcoxon(ratios).pvalue)
    return float(stats.ttest_1samp(ratios, 0.0).pvalue)


def _unpaired_p(a: Floats, b: Floats, comparisons: int) -> float:
    if len(set(a) | set(b)) == 1:
        return 1.0
    n, m = len(a), len(b)
    furthest = (n * m / 2 - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)  # the two samples do not overlap
    if 2 * stats.norm.sf(furthest) * comparisons < ALPHA or not _spread(a, b):
        return float(stats.mannwhitneyu(b, a).pvalue)
    return float(stats.ttest_ind(b, a, equal_var=False).pvalue)


def _one_sided_paired(ratios: Floats, margin: float) -> tuple[float, float]:
    """One-sided p values of: not below minus the margin, not above the margin."""
    bound = math.log1p(margin)
    if len(ratios) < 2:
        return 1.0, 1.0
    if np.ptp(ratios) < ROUNDING:
        return float(ratios[0] <= -bound), float(ratios[0] >= bound)
    _, (_, lower, _), (_, upper, _) = ttost_paired(ratios, np.zeros_like(ratios), -bound, bound)
    return float(lower), float(upper)


def _one_sided_unpaired(a: Floats, b: Floats, margin: float) -> tuple[float, float]:
    bound = math.log1p(margin)
    if not _spread(a, b):
        return float(shift(a, b) <= -bound), float(shift(a, b) >= bound)
    _, (_, lower, _), (_, upper, _) = ttost_ind(b, a, -bound, bound, usevar="unequal")
    return float(lower), float(upper)


def _effect(
    log_ratio: float,
    bounds: tuple[float, float],
    p: float,
    n: int,
    paired: bool,
    sides: tuple[float, float],
    mde: float,
) -> Effect:
    low, high = map(math.exp, bounds)
    return Effect(math.exp(log_ratio), low, high, p, n, paired, *sides, max(sides), mde)


def _bootstrap_shift(a: Floats, b: Floats) -> tuple[float, float]:
    generator = np.random.default_rng(SEED)
    drawn = [shift(generator.choice(a, len(a)), generator.choice(b, len(b))) for _ in range(2000)]
    low, high = np.percentile(drawn, [100 * ALPHA / 2, 100 - 100 * ALPHA / 2])
    return float(low), float(high)


def _welch_shift(a: Floats, b: Floats) -> tuple[float, float]:
    if not _spread(a, b):
        return shift(a, b), shift(a, b)
    found = stats.ttest_ind(b, a, equal_var=False).confidence_interval(1 - ALPHA)
    return float(found.low), float(found.high)


def _games_howell_pair(name_a: str, name_b: str, a: Floats, b: Floats, groups: int) -> PairwiseTest:
    part_a, part_b = _variance(a) / len(a), _variance(b) / len(b)
    difference = float(b.mean() - a.mean())
    if part_a + part_b == 0:
        return PairwiseTest(name_a, name_b, float(difference == 0), math.exp(difference), math.exp(difference))
    freedom = (part_a + part_b) ** 2 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))
    error = math.sqrt((part_a + part_b) / 2)
    p = float(stats.studentized_range.sf(abs(difference) / error, groups, freedom))
    reach = float(qsturng(1 - ALPHA, groups, max(2.0, freedom))) * error  # scipy needs 0.2 s
    return PairwiseTest(name_a, name_b, p, math.exp(difference - reach), math.exp(difference + reach))


def _standard_deviation(values: Floats) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.inf


def _variance(values: Floats) -> float:
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0


def _spread(a: Floats, b: Floats) -> bool:
    return len(a) > 1 and len(b) > 1 and _variance(a) + _variance(b) > 0
