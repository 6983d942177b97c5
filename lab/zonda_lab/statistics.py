"""The tests, each a function from samples to a small result; scipy, scikit-posthocs and statsmodels do the arithmetic.

Samples are one value a start (the unit of replication), blocks are runs through all treatments. Effects are ratios:
everything here is positive and noise is proportional, so logarithms are compared.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
FEWEST_RESAMPLED = 8  # of fewer values a bootstrap's 95 % intervals held the truth in 70 (3), 87 (5 or 6) of 100 runs
ROUNDING = 1e-12  # logarithms that differ by less are equal
SEED = 20_261
Floats = NDArray[np.float64]
Groups = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Effect:
    """Candidate over baseline: the ratio, its 95 % interval, how sure it is, and what could have been seen."""

    ratio: float
    low: float
    high: float
    p: float
    n: int
    paired: bool
    equivalent: bool
    p_equivalence: float
    detectable: float


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
    """Values of the same blocks, in the same order: Hodges-Lehmann of the log ratios, interval, signed ranks.

    Of `comparisons` that are corrected together, by so few blocks that no signed-rank test could reach 5 % (five or
    fewer for one comparison), the p value is the paired t test's.
    """
    ratios = np.log(np.asarray(candidate, float)) - np.log(np.asarray(baseline, float))
    low, high = interval(ratios)
    p_equal, p_equivalence = _paired_p(ratios, comparisons), _tost_paired(ratios, margin)
    return Effect(
        math.exp(hodges_lehmann(ratios)),
        math.exp(low),
        math.exp(high),
        p_equal,
        len(ratios),
        True,
        p_equivalence < ALPHA,
        p_equivalence,
        detectable(ratios),
    )


def unpaired_effect(
    baseline: Sequence[float], candidate: Sequence[float], margin: float, comparisons: int = 1
) -> Effect:
    """Values of different runs: Hodges-Lehmann shift of the logarithms, interval, Mann-Whitney.

    Where so few starts can never reach 5 % in so many comparisons by ranks, the p value is Welch's t test's.
    """
    a, b = np.log(np.asarray(baseline, float)), np.log(np.asarray(candidate, float))
    low, high = _bootstrap_shift(a, b) if min(len(a), len(b)) >= FEWEST_RESAMPLED else _welch_shift(a, b)
    p = _unpaired_p(a, b, comparisons)
    bound = math.log1p(margin)
    p_equivalence = (
        float(ttost_ind(b, a, -bound, bound, usevar="unequal")[0])
        if _spread(a, b)
        else float(abs(shift(a, b)) >= bound)
    )
    pooled = math.sqrt((_variance(a) + _variance(b)) / 2 * 2)
    seen = _detectable(pooled, min(len(a), len(b)))
    return Effect(
        math.exp(shift(a, b)),
        math.exp(low),
        math.exp(high),
        p,
        min(len(a), len(b)),
        False,
        p_equivalence < ALPHA,
        p_equivalence,
        seen,
    )


def hodges_lehmann(values: ArrayLike, axis: int = -1) -> Any:
    """The median of all pairwise means along an axis: as robust as the median, nearly as exact as the mean."""
    x = np.moveaxis(np.asarray(values, float), axis, -1)
    first, second = np.triu_indices(x.shape[-1])
    return np.median((x[..., first] + x[..., second]) / 2, axis=-1)


def shift(a: ArrayLike, b: ArrayLike) -> float:
    """The median of all differences b - a."""
    return float(np.median(np.subtract.outer(np.asarray(b, float), np.asarray(a, float))))


def bca(values: Floats, statistic: Callable[..., Any] = np.median) -> tuple[float, float]:
    """The bias-corrected and accelerated bootstrap interval of a statistic; the range where it cannot be had."""
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
    """The interval of paired log ratios: BCa; Student's of few, where a bootstrap is far too narrow."""
    n = len(log_ratios)
    if n >= FEWEST_RESAMPLED or n < 2 or np.ptp(log_ratios) < ROUNDING:
        return bca(log_ratios, hodges_lehmann)
    reach = float(stats.t.ppf(1 - ALPHA / 2, n - 1) * np.std(log_ratios, ddof=1) / math.sqrt(n))
    return float(np.mean(log_ratios)) - reach, float(np.mean(log_ratios)) + reach


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median over starts and its interval."""
    low, high = bca(np.asarray(values, float))
    return float(np.median(values)), low, high


def detectable(log_ratios: Floats) -> float:
    """The least relative difference that so many blocks find with 80 % power at 5 %, by the noise they had."""
    return _detectable(float(np.std(log_ratios, ddof=1)) if len(log_ratios) > 1 else math.inf, len(log_ratios))


def blocks_needed(sigma: float, difference: float) -> int:
    """How many blocks find a relative difference with 80 % power, if log ratios scatter by `sigma`."""
    return next((n for n in range(3, 10_001) if _detectable(sigma, n) <= difference), 10_000)


def kruskal(groups: Groups) -> Test:
    """Is any level different? Unblocked."""
    if len({value for values in groups.values() for value in values}) < 2:
        return Test("Kruskal-Wallis", 0.0, 1.0)
    found = stats.kruskal(*groups.values())
    return Test("Kruskal-Wallis", float(found.statistic), float(found.pvalue))


def friedman(groups: Groups) -> Test:
    """Is any level different? Blocked: the n-th values of all groups belong together; needs three groups."""
    values = list(groups.values())
    if all(np.ptp(block) == 0 for block in zip(*values, strict=True)):
        return Test("Friedman", 0.0, 1.0)
    found = stats.friedmanchisquare(*values)
    return Test("Friedman", float(found.statistic), float(found.pvalue))


def dunn_to_baseline(groups: Groups, baseline: str) -> list[PairwiseTest]:
    """Dunn's test of each level against the baseline: k - 1 comparisons, Holm's correction for just these."""
    names = list(groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ties that are all there is divide by zero, and then nothing differs
        table = scikit_posthocs.posthoc_dunn([list(values) for values in groups.values()], p_adjust=None)
    column = table.to_numpy()[names.index(baseline)]
    others = [name for name in names if name != baseline]
    raw = [float(np.nan_to_num(column[names.index(name)], nan=1.0)) for name in others]
    return [PairwiseTest(baseline, name, p) for name, p in zip(others, holm(raw), strict=True)]


def dunnett(groups: Groups, baseline: str) -> list[PairwiseTest]:
    """Dunnett's many-to-one comparison of means of logarithms: the parametric twin of Dunn's."""
    others = [name for name in groups if name != baseline]
    if not scattered(groups):
        return [PairwiseTest(baseline, name, math.nan) for name in others]
    logs = {name: np.log(values) for name, values in groups.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one group without variance is nothing to warn of
        found = stats.dunnett(*(logs[name] for name in others), control=logs[baseline], rng=np.random.default_rng(SEED))
    return [PairwiseTest(baseline, name, float(p)) for name, p in zip(others, np.atleast_1d(found.pvalue), strict=True)]


def tukey(groups: Groups) -> list[PairwiseTest]:
    """All pairs, equal variances; intervals are of the ratio b / a."""
    names = list(groups)
    if not scattered(groups):
        return [PairwiseTest(a, b, math.nan) for a, b in itertools.combinations(names, 2)]
    found = stats.tukey_hsd(*(np.log(values) for values in groups.values()))
    interval = found.confidence_interval()
    return [
        PairwiseTest(
            names[i], names[j], float(found.pvalue[i, j]), math.exp(-interval.high[i, j]), math.exp(-interval.low[i, j])
        )
        for i, j in itertools.combinations(range(len(names)), 2)
    ]


def games_howell(groups: Groups) -> list[PairwiseTest]:
    """All pairs, unequal variances (Games and Howell 1976): Welch's degrees of freedom, the studentised range."""
    logs = {name: np.log(np.asarray(values, float)) for name, values in groups.items()}
    return [_games_howell_pair(a, b, logs[a], logs[b], len(logs)) for a, b in itertools.combinations(logs, 2)]


def brown_forsythe(groups: Groups) -> Test:
    """Do variances differ? Levene's test around medians, of logarithms."""
    if not scattered(groups):
        return Test("Brown-Forsythe", 0.0, 1.0)
    found = stats.levene(*(np.log(values) for values in groups.values()), center="median")
    return Test("Brown-Forsythe", float(found.statistic), float(np.nan_to_num(found.pvalue, nan=1.0)))


def scattered(groups: Groups) -> bool:
    """Is there any variance within the groups? Without it parametric tests have nothing to measure by."""
    return any(np.ptp(values) > 1e-9 * np.max(values) for values in groups.values())


def variation(values: Sequence[float]) -> float:
    """The coefficient of variation."""
    return float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 and np.mean(values) else 0.0


def variation_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> tuple[float, float, float]:
    """The candidate's coefficient of variation over the baseline's, with its interval (bootstrap of both)."""
    draw = np.random.default_rng(SEED)
    bottom, top = (
        np.std(drawn, axis=1, ddof=1) / np.mean(drawn, axis=1)
        for drawn in (draw.choice(values, (RESAMPLES, len(values))) for values in (baseline, candidate))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.nanquantile(top / bottom, [0.025, 0.975], method="nearest")
        return float(np.divide(variation(candidate), variation(baseline))), float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for several comparisons; own, since statsmodels' collects garbage at every call."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected.tolist()


def outliers(values: Sequence[float], limit: float = 3.5) -> list[int]:
    """Indices of values whose modified z score (Iglewicz and Hoaglin) is beyond the limit; of fewer than five none."""
    x = np.asarray(values, float)
    deviation = np.abs(x - np.median(x))
    mad = np.median(deviation)
    return [] if mad == 0 or len(x) < 5 else [int(i) for i in np.flatnonzero(0.6745 * deviation / mad > limit)]


def falling(x: Sequence[float], y: Sequence[float]) -> Floats:
    """The monotone (isotonic) fit of a curve that can only fall: a response rate over the offered rate."""
    order = np.argsort(x, kind="stable")
    fitted = np.empty(len(order))
    fitted[order] = optimize.isotonic_regression(np.asarray(y, float)[order], increasing=False).x
    return fitted


def false_alarms(
    firsts: Sequence[Sequence[float]], seconds: Sequence[Sequence[float]], margin: float
) -> tuple[int, int]:
    """A/A: of so many comparisons of equal treatments so many looked different; about one in twenty may."""
    effects = [paired_effect(a, b, margin) for a, b in zip(firsts, seconds, strict=True) if len(a) > 2]
    return sum(effect.p < ALPHA for effect in effects), len(effects)


def warm_up_end(values: Sequence[float]) -> int:
    """Where a series settles: the change point (least squares) if it lies in the first third, else 0."""
    x = np.asarray(values, float)
    last = len(x) // 3
    if last < 2 or np.ptp(x) == 0:
        return 0
    whole = float(((x - x.mean()) ** 2).sum())
    costs = {
        k: float(((x[:k] - x[:k].mean()) ** 2).sum() + ((x[k:] - x[k:].mean()) ** 2).sum())
        for k in range(1, len(x) - 1)
    }
    best = min(costs, key=costs.__getitem__)
    return best if best <= last and costs[best] < 0.5 * whole else 0


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
    furthest = (n * m / 2 - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)  # all of one side beyond the other, as with ties
    if 2 * stats.norm.sf(furthest) * comparisons < ALPHA or not _spread(a, b):
        return float(stats.mannwhitneyu(b, a).pvalue)
    return float(stats.ttest_ind(b, a, equal_var=False).pvalue)


def _tost_paired(ratios: Floats, margin: float) -> float:
    bound = math.log1p(margin)
    if len(ratios) < 2:
        return 1.0
    if np.ptp(ratios) == 0:
        return float(abs(ratios[0]) >= bound)
    return float(ttost_paired(ratios, np.zeros_like(ratios), -bound, bound)[0])


def _detectable(sigma: float, n: int) -> float:
    """(t(1 - alpha/2) + t(power)) sigma / sqrt(n), as a ratio minus one."""
    if n < 2 or not math.isfinite(sigma):
        return math.inf
    quantiles = stats.t.ppf(1 - ALPHA / 2, n - 1) + stats.t.ppf(POWER, n - 1)
    return math.expm1(min(700.0, float(quantiles) * sigma / math.sqrt(n)))


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
    reach = float(qsturng(1 - ALPHA, groups, max(2.0, freedom))) * error  # scipy integrates for a fifth of a second
    return PairwiseTest(name_a, name_b, p, math.exp(difference - reach), math.exp(difference + reach))


def _variance(values: Floats) -> float:
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0


def _spread(a: Floats, b: Floats) -> bool:
    return len(a) > 1 and len(b) > 1 and _variance(a) + _variance(b) > 0
