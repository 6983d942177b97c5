"""A candidate over a baseline: ratio, interval, tests of difference and equivalence, power calculation."""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from zonda_lab.statistics import ALPHA, intervals
from zonda_lab.statistics.intervals import Floats

POWER = 0.80
MOST_BLOCKS = 2_000


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
    p_not_lower: float
    p_not_higher: float
    p_equivalence: float
    mde: float
    bound: str = ""  # "at least" or "at most" if values were only bounds; "unknown" if they leave the ratio open

    @property
    def equivalent(self) -> bool:
        """Whether the ratio is within the margin on both sides."""
        return self.p_equivalence < ALPHA

    @property
    def is_constant(self) -> bool:
        """Whether the ratio is the same in all starts, of which no test knows how far they would vary."""
        return self.mde == 0


def paired_effect(
    baseline: Sequence[float], candidate: Sequence[float], margin: float, comparisons: int = 1, alpha: float = ALPHA
) -> Effect:
    """Compares values paired by block: Hodges-Lehmann estimate of the log ratios, interval, Wilcoxon signed-rank test.

    With too few blocks for the signed-rank test to reach 5 % after correcting for `comparisons` (five or fewer blocks
    for one comparison), the p value is that of the paired t test. The p values are not corrected yet (`corrected`);
    the minimum detectable effect is that of a test at 5 % divided by `comparisons`. The interval misses the ratio with
    probability `alpha`.
    """
    ratios = np.log(np.asarray(candidate, float)) - np.log(np.asarray(baseline, float))
    sides, sigma = _one_sided_paired(ratios, margin), math.sqrt(intervals.variance(ratios))
    mde = minimum_detectable(sigma, len(ratios), comparisons)
    estimate, p = intervals.hodges_lehmann(ratios), _paired_p(ratios, comparisons)
    return _effect(estimate, intervals.interval(ratios, alpha), p, len(ratios), sides, mde)


def unpaired_effect(
    baseline: Sequence[float], candidate: Sequence[float], margin: float, comparisons: int = 1
) -> Effect:
    """Compares independent samples: Hodges-Lehmann shift of the logarithms, interval, Mann-Whitney test.

    With too few starts for the rank test to reach 5 % after correction, the p value is that of Welch's t test.
    """
    a, b = np.log(np.asarray(baseline, float)), np.log(np.asarray(candidate, float))
    n = min(len(a), len(b))
    bounds = intervals.bootstrap_shift(a, b) if n >= intervals.MIN_BOOTSTRAP else intervals.welch_shift(a, b)
    mde = minimum_detectable(math.sqrt(intervals.variance(a) + intervals.variance(b)), n, comparisons)
    p, sides = _unpaired_p(a, b, comparisons), _one_sided_unpaired(a, b, margin)
    return _effect(intervals.shift(a, b), bounds, p, n, sides, mde)


def minimum_detectable(sigma: float, n: int, comparisons: int = 1) -> float:
    """Minimum detectable effect: (t(1 - alpha/2) + t(power)) sigma / sqrt(n), as a ratio minus one.

    With several comparisons alpha is divided by their number, the first and strictest step of Holm's correction.
    """
    if n < 2 or not math.isfinite(sigma):
        return math.inf
    quantiles = stats.t.ppf(1 - ALPHA / 2 / max(1, comparisons), n - 1) + stats.t.ppf(POWER, n - 1)
    return math.expm1(min(700.0, float(quantiles) * sigma / math.sqrt(n)))


def minimum_detectable_spread(n: int, comparisons: int = 1) -> float:
    """Minimum detectable effect on the ratio of two coefficients of variation over `n` starts each, by an F test.

    Independent of the coefficients, as long as they are small.
    """
    if n < 2:
        return math.inf
    test = stats.f.ppf(1 - ALPHA / 2 / max(1, comparisons), n - 1, n - 1)
    return math.sqrt(float(test * stats.f.ppf(POWER, n - 1, n - 1))) - 1


def blocks_needed(sigma: float, effect: float, comparisons: int = 1) -> int | None:
    """Blocks that detect a relative effect with 80 % power, from the standard deviation of paired log ratios.

    None above `MOST_BLOCKS`.
    """
    sizes = range(2, MOST_BLOCKS + 1)
    at = bisect.bisect_left(sizes, True, key=lambda n: minimum_detectable(sigma, n, comparisons) <= effect)
    return sizes[at] if at < len(sizes) else None


def corrected(effects: Sequence[Effect]) -> list[Effect]:
    """The effects of one family with Holm's correction of all their p values: difference, equivalence, one-sided."""
    kinds = ("p", "p_not_lower", "p_not_higher", "p_equivalence")
    columns = [holm([getattr(effect, kind) for effect in effects]) for kind in kinds]
    return [
        replace(effect, **dict(zip(kinds, row, strict=True)))
        for effect, row in zip(effects, zip(*columns, strict=True), strict=True)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction; statsmodels' version runs the garbage collector at every call."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected.tolist()


def _paired_p(ratios: Floats, comparisons: int = 1) -> float:
    if len(ratios) < 2:
        return 1.0
    if np.ptp(ratios) < intervals.ROUNDING:
        return 1.0 if abs(ratios[0]) < intervals.ROUNDING else 0.0
    if 2 * 0.5 ** len(ratios) * comparisons < ALPHA:
        return float(stats.wilcoxon(ratios).pvalue)
    return float(stats.ttest_1samp(ratios, 0.0).pvalue)


def _unpaired_p(a: Floats, b: Floats, comparisons: int) -> float:
    if len(set(a) | set(b)) == 1:
        return 1.0
    n, m = len(a), len(b)
    furthest = (n * m / 2 - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)  # the two samples do not overlap
    if 2 * stats.norm.sf(furthest) * comparisons < ALPHA or not intervals.either_varies(a, b):
        return float(stats.mannwhitneyu(b, a).pvalue)
    return float(stats.ttest_ind(b, a, equal_var=False).pvalue)


def _one_sided_paired(ratios: Floats, margin: float) -> tuple[float, float]:
    """One-sided p values of: not below minus the margin, not above the margin."""
    bound = math.log1p(margin)
    if len(ratios) < 2:
        return 1.0, 1.0
    if np.ptp(ratios) < intervals.ROUNDING:
        return float(ratios[0] <= -bound), float(ratios[0] >= bound)
    _, (_, lower, _), (_, upper, _) = ttost_paired(ratios, np.zeros_like(ratios), -bound, bound)
    return float(lower), float(upper)


def _one_sided_unpaired(a: Floats, b: Floats, margin: float) -> tuple[float, float]:
    bound = math.log1p(margin)
    if not intervals.either_varies(a, b):
        return float(intervals.shift(a, b) <= -bound), float(intervals.shift(a, b) >= bound)
    _, (_, lower, _), (_, upper, _) = ttost_ind(b, a, -bound, bound, usevar="unequal")
    return float(lower), float(upper)


def _effect(
    log_ratio: float, bounds: tuple[float, float], p: float, n: int, sides: tuple[float, float], mde: float
) -> Effect:
    low, high = map(math.exp, bounds)
    return Effect(math.exp(log_ratio), low, high, p, n, *sides, max(sides), mde)
