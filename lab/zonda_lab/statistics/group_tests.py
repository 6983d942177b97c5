"""Tests over all levels of a factor, and over all pairs of them."""

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scikit_posthocs
from scipy import stats
from statsmodels.stats.libqsturng import qsturng

from zonda_lab.statistics import ALPHA
from zonda_lab.statistics.intervals import SEED, Floats, variance
from zonda_lab.statistics.ratio_effect import holm

Groups = Mapping[str, Sequence[float]]


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


def _games_howell_pair(name_a: str, name_b: str, a: Floats, b: Floats, groups: int) -> PairwiseTest:
    part_a, part_b = variance(a) / len(a), variance(b) / len(b)
    difference = float(b.mean() - a.mean())
    if part_a + part_b == 0:
        return PairwiseTest(name_a, name_b, float(difference == 0), math.exp(difference), math.exp(difference))
    freedom = (part_a + part_b) ** 2 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))
    error = math.sqrt((part_a + part_b) / 2)
    p = float(stats.studentized_range.sf(abs(difference) / error, groups, freedom))
    reach = float(qsturng(1 - ALPHA, groups, max(2.0, freedom))) * error  # scipy needs 0.2 s
    return PairwiseTest(name_a, name_b, p, math.exp(difference - reach), math.exp(difference + reach))
