"""Effects of a level on a metric: ratios or absolute differences, values that are only bounds, outcomes in words."""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from zonda_lab.experiments.metrics import METRICS
from zonda_lab.results.settings_bounds import ANSWERED
from zonda_lab.results.window_record import Bound
from zonda_lab.statistics import ALPHA, intervals, ratio_effect
from zonda_lab.statistics.ratio_effect import Effect

MIN_STARTS = 3  # with fewer, no comparison is made
ComparisonOutcome = Literal["better", "worse", "different", "equivalent", "inconclusive", "withheld", "too few starts"]
# unknown: bounds of both values leave the ratio open. unequal: not the same share of the queries was answered.
RatioBound = Literal["", "at least", "at most", "unknown", "unequal"]
SAME_SHARE = 1 - ANSWERED  # largest difference of the shares answered at which costs of an answer are compared
OPPOSITE: dict[Bound, Bound] = {"": "", "at least": "at most", "at most": "at least"}


@dataclass(frozen=True)
class Sample:
    """One value per block, and which of them are only bounds of the true value.

    `uppers` has the first failing rate of a peak search by block: the true peak lies between it and the value.
    """

    values: dict[int, float]
    bounds: dict[int, Bound] = field(default_factory=dict)
    uppers: dict[int, float] = field(default_factory=dict)
    most: float = math.inf  # no value can be above it
    answered: float = 1.0  # median share of the queries that were answered in these windows
    queries: int = 0  # queries, connections or updates that the values are shares of, in all windows; 0 if unknown

    def median(self, alpha: float = ALPHA) -> tuple[float, float, float, Bound]:
        """Median, its interval that misses it with probability `alpha`, and whether the median is only a bound."""
        middle, low, high, bound = self._median(alpha)
        if self.queries:
            unseen = unseen_share(self.queries, alpha)
            low, high = max(min(low, middle - unseen), 0.0), max(high, middle + unseen)
        return middle, low, min(high, self.most), bound

    def _median(self, alpha: float) -> tuple[float, float, float, Bound]:
        middle, low, high = intervals.median_interval(list(self.values.values()), alpha)
        if not self.bounds and not self.uppers:
            return middle, low, high, ""
        beyond = {"at least": self.most, "at most": 0.0}
        extreme = [beyond.get(self.bounds.get(block, ""), value) for block, value in self.values.items()]
        middle_bound, low_bound, high_bound = intervals.median_interval(extreme, alpha)
        bound: Bound = "" if middle_bound == middle else "at least" if middle_bound > middle else "at most"
        uppers = [self.uppers.get(block, value) for block, value in zip(self.values, extreme, strict=True)]
        return middle, min(low, low_bound), max(high, high_bound, intervals.median_interval(uppers, alpha)[2]), bound

    @property
    def positive(self) -> bool:
        """Whether ratios of the values exist."""
        return min(self.values.values(), default=0.0) > 0


def compared(
    metric: str, base: Sample, other: Sample, margin: float, comparisons: int = 1, paired: bool = True
) -> Effect | None:
    """The effect of `other` over `base` in their common blocks; None if there is nothing to compare.

    Metrics with a margin of their own are compared by absolute differences: their exponentials take the place of the
    values, so that the logarithm of the ratio is the difference.
    """
    blocks = [block for block in base.values if block in other.values] if paired else []
    first, second = blocks or list(base.values), blocks or list(other.values)
    if (paired and not blocks) or not first or not second:
        return None
    a, b = [base.values[block] for block in first], [other.values[block] for block in second]
    if absolute := METRICS[metric].margin:
        a, b, margin = list(np.exp(a)), list(np.exp(b)), math.expm1(absolute)
    elif min(*a, *b) <= 0:
        return None
    effect = (ratio_effect.paired_effect if paired else ratio_effect.unpaired_effect)(a, b, margin, comparisons)
    if base.queries and other.queries:
        effect = _of_few_queries(effect, min(base.queries, other.queries), absolute)
    elif METRICS[metric].counted and len({*a}) == len({*b}) == 1:
        effect = replace(effect, p_not_lower=1.0, p_not_higher=1.0, p_equivalence=1.0)  # of how many is not known
    denominators, numerators = (base.bounds.get(n, "") for n in first), (other.bounds.get(n, "") for n in second)
    bound = bound_of_ratio(denominators, numerators)
    return bounded(effect, bound if is_comparable(metric, base, other) else "unequal")


def obstacle(metric: str, base: Sample, other: Sample) -> str:
    """Why `other` is not compared with `base` by block; empty if it is."""
    blocks = [block for block in base.values if block in other.values]
    values = [sample.values[block] for block in blocks for sample in (base, other)]
    if len(blocks) < MIN_STARTS:
        return f"fewer than {MIN_STARTS} common starts"
    if not METRICS[metric].margin and min(values) <= 0:
        return "a value is not positive: no ratio" if any(values) else "all values are 0"
    if not is_comparable(metric, base, other):
        return "unequal shares answered"
    return "values are only bounds" if base.bounds or other.bounds else ""


def separation(base: Sample, other: Sample) -> Effect | None:
    """An effect without a ratio, such as that of a count on zero: whether all values of one side are below the other's.

    Its p value is the share of the orders of as many values that are so. None if nothing can differ.
    """
    a, b = list(base.values.values()), list(other.values.values())
    if min(len(a), len(b)) < MIN_STARTS or base.bounds or other.bounds or not any(a + b):
        return None
    is_separate = max(a) < min(b) or max(b) < min(a)
    p = 2 / math.comb(len(a) + len(b), len(a)) if is_separate else 1.0
    return Effect(math.nan, 0.0, math.inf, p, min(len(a), len(b)), 1.0, 1.0, 1.0, math.nan)


def without_ratio(metric: str, base: Sample, other: Sample, p: float, alarm: bool) -> str:
    """The outcome of values without a ratio, by the p value of their separation, or why there is none."""
    if p >= ALPHA:
        return obstacle(metric, base, other)
    if alarm:
        return "withheld: A/A alarm"
    is_lower = max(other.values.values()) < min(base.values.values())
    return f"{_direction(metric, is_lower)}: every value is {'lower' if is_lower else 'higher'}"


def unseen_share(queries: int, alpha: float = ALPHA) -> float:
    """The largest share of losses among which so many queries meet none with a probability of `alpha`."""
    return -math.log(alpha) / queries


def _of_few_queries(effect: Effect, queries: int, margin: float) -> Effect:
    """The difference of two shares as far as so many queries can show it: none may be lost by chance alone.

    Values that are all the same have no variance, from which a test would conclude that they are equal.
    """
    unseen, p = math.exp(unseen_share(queries)), max(math.exp(-queries * margin), sys.float_info.min)
    return replace(
        effect,
        low=min(effect.low, effect.ratio / unseen),
        high=max(effect.high, effect.ratio * unseen),
        p_not_lower=max(effect.p_not_lower, p),
        p_not_higher=max(effect.p_not_higher, p),
        p_equivalence=max(effect.p_equivalence, p),
    )


def is_comparable(metric: str, base: Sample, other: Sample) -> bool:
    """Whether a ratio of the metric has a meaning: an overloaded server answers in full batches, so for less each."""
    return not METRICS[metric].per_answer or abs(base.answered - other.answered) <= SAME_SHARE


def bound_of_ratio(denominators: Iterable[Bound], numerators: Iterable[Bound]) -> RatioBound:
    """What bounds of the values make of their ratio: over a lower bound it is an upper bound."""
    kinds = {OPPOSITE[bound] for bound in denominators} | set(numerators)
    kinds.discard("")
    return "" if not kinds else "unknown" if len(kinds) > 1 else kinds.pop()


def bounded(effect: Effect, bound: RatioBound) -> Effect:
    """The effect if its ratio is only a bound: open on one side, never equivalent, different only on the known side."""
    if not bound:
        return effect
    rising, falling = bound == "at least", bound == "at most"
    known = (rising and effect.ratio > 1) or (falling and effect.ratio < 1)
    return replace(
        effect,
        low=effect.low if rising else 0.0,
        high=effect.high if falling else math.inf,
        p=effect.p if known else 1.0,
        p_not_lower=effect.p_not_lower if rising else 1.0,
        p_not_higher=effect.p_not_higher if falling else 1.0,
        p_equivalence=1.0,
        bound=bound,
    )


def classify(effect: Effect, metric: str, alarm: bool = False) -> ComparisonOutcome:
    """What interval, corrected p values and A/A pair support; a difference below the MDE is inconclusive."""
    if effect.n < MIN_STARTS:
        return "too few starts"
    if alarm:
        return "withheld"
    if effect.equivalent:
        return "equivalent"  # also if the difference, smaller than the margin, is significant
    if is_detected(effect):
        return _direction(metric, effect.ratio < 1)
    return "inconclusive"


def _direction(metric: str, is_lower: bool) -> ComparisonOutcome:
    better = METRICS[metric].better
    return "different" if better == "neither" else "better" if is_lower == (better == "lower") else "worse"


def is_detected(effect: Effect, alpha: float = ALPHA) -> bool:
    """Whether the ratio differs from 1 significantly, and by no less than the minimum detectable effect."""
    large = effect.ratio > 0 and abs(math.log(effect.ratio)) >= math.log1p(effect.mde)
    return effect.p < alpha and large and not effect.low <= 1 <= effect.high
