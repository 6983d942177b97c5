"""Analyses window records: medians per treatment, comparisons with the baseline, A/A control."""

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from zonda_lab.analysis import effects
from zonda_lab.analysis.effects import MIN_STARTS, ComparisonOutcome, Sample
from zonda_lab.experiments.definition import AnalysisSpec, Published
from zonda_lab.experiments.metrics import METRICS, WITHOUT_DNS, words
from zonda_lab.results.settings_bounds import ANSWERED
from zonda_lab.results.window_record import Bound, WindowRecord, selected
from zonda_lab.statistics import ALPHA, group_tests, intervals, ratio_effect
from zonda_lab.statistics.group_tests import PairwiseTest, Test
from zonda_lab.statistics.ratio_effect import Effect

Levels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cell:
    """One metric of one treatment over all its starts."""

    levels: dict[str, str]
    copy: int
    sample: Sample
    median: float
    low: float
    high: float
    bound: Bound
    variation: float
    outliers: list[int]

    @property
    def values(self) -> dict[int, float]:
        """The value of each block."""
        return self.sample.values

    @property
    def label(self) -> str:
        """The levels as text."""
        return words(self.levels) + (" (again)" if self.copy else "")


@dataclass(frozen=True)
class LevelComparison:
    """A level compared with the baseline, all other levels being equal."""

    stratum: dict[str, str]
    factor: str
    level: str
    effect: Effect
    outcome: ComparisonOutcome
    dunn: float = math.nan  # p values
    dunnett: float = math.nan

    @property
    def levels(self) -> dict[str, str]:
        """Its level, and those of the other factors."""
        return {**self.stratum, self.factor: self.level}


@dataclass(frozen=True)
class AaPair:
    """The two runs of the baseline at fixed levels of all other factors, compared."""

    metric: str
    levels: dict[str, str]
    effect: Effect

    @property
    def significant(self) -> bool:
        """Whether one program differs from itself significantly: a false alarm."""
        return self.effect.p < ALPHA

    @property
    def can_alarm(self) -> bool:
        """Whether it is one of the pairs of which 5 % are expected to alarm: not if no value varies."""
        return self.significant or not self.effect.is_constant

    @property
    def alarm(self) -> bool:
        """Whether that withholds the verdicts at these levels: a difference within the margin changes none."""
        return self.significant and not self.effect.equivalent


@dataclass(frozen=True)
class Stratum:
    """The comparisons of one factor at fixed levels of all other factors."""

    levels: dict[str, str]
    comparisons: list[LevelComparison]
    without_ratio: dict[str, str] = field(default_factory=dict)  # outcomes of levels without one, or why there is none
    omnibus: list[Test] = field(default_factory=list)
    variances: Test | None = None
    groups: dict[str, list[float]] = field(default_factory=dict)  # of those tests; empty if they need other values

    @property
    def tukey(self) -> list[PairwiseTest]:
        """All pairs, assuming equal variances. It takes long, and only the page shows it."""
        return group_tests.tukey(self.groups) if self.groups else []

    @property
    def games_howell(self) -> list[PairwiseTest]:
        """All pairs with unequal variances, which takes long as well."""
        return group_tests.games_howell(self.groups)


@dataclass(frozen=True)
class MetricAnalysis:
    """The analysis of one metric of one experiment."""

    metric: str
    cells: list[Cell]
    strata: list[Stratum] = field(default_factory=list)
    aa_pairs: list[AaPair] = field(default_factory=list)

    @property
    def aa_control(self) -> tuple[int, int]:
        """Significant A/A comparisons, all A/A comparisons."""
        return sum(pair.significant for pair in self.aa_pairs), len(self.aa_pairs)

    @property
    def comparisons(self) -> list[LevelComparison]:
        """Those of all strata."""
        return [comparison for stratum in self.strata for comparison in stratum.comparisons]

    @property
    def detectable(self) -> list[float]:
        """The minimum detectable effects of all comparisons but those of bounds and of values that do not vary."""
        return [each.effect.mde for each in self.comparisons if not each.effect.bound and each.effect.mde]


def analyse(records: Sequence[WindowRecord], analysis: AnalysisSpec) -> list[MetricAnalysis]:
    """Analyses every metric that was measured, the primary metric first."""
    return [
        analyse_metric(records, metric, analysis)
        for metric in metrics_of(analysis)
        if any(record.has(metric) for record in records)
    ]


def metrics_of(analysis: AnalysisSpec) -> list[str]:
    """The metrics of an analysis, each once, the primary metric first."""
    return list(dict.fromkeys([analysis.metric, *analysis.metrics]))


def analyse_metric(records: Sequence[WindowRecord], metric: str, analysis: AnalysisSpec) -> MetricAnalysis:
    """Cells, comparisons and A/A control of one metric."""
    cells = tabulate(records, metric)
    if not analysis.baseline:
        return MetricAnalysis(metric, cells)
    pairs = aa_pairs(records, [metric], analysis)
    alarms = {tuple(pair.levels.items()) for pair in pairs if pair.alarm}
    groups = grouped(cells, analysis).items()
    strata = [_stratum(dict(key), group, metric, analysis, alarm=key in alarms) for key, group in groups]
    return MetricAnalysis(metric, cells, [s for s in strata if s.comparisons or s.without_ratio], pairs)


def aa_pairs(records: Sequence[WindowRecord], metrics: Iterable[str], analysis: AnalysisSpec) -> list[AaPair]:
    """Every two runs of the baseline, compared by block, in each metric; those that are only bounds cannot be."""
    found = []
    for metric in metrics if analysis.baseline else ():
        for key, group in grouped(tabulate(records, metric), analysis).items():
            for first, second in itertools.product(group, group):
                if first.levels != second.levels or (first.copy, second.copy) != (0, 1):
                    continue
                effect = effects.compared(metric, first.sample, second.sample, analysis.margin)
                if effect and effect.n >= MIN_STARTS and not effect.bound:
                    found.append(AaPair(metric, dict(key), effect))
    return found


def tabulate(records: Iterable[WindowRecord], metric: str) -> list[Cell]:
    """One cell per treatment; windows with the same levels in one start are reduced to their median."""
    treatments: dict[tuple[Levels, int], list[WindowRecord]] = defaultdict(list)
    for record in valid(records, metric):
        treatments[tuple(record.levels.items()), record.copy].append(record)
    return [cell_of(dict(levels), copy, sample_of(windows, metric)) for (levels, copy), windows in treatments.items()]


def sample_of(records: Iterable[WindowRecord], metric: str) -> Sample:
    """One value per block: the median of its valid windows, a bound if one of them is."""
    found: dict[int, list[float]] = defaultdict(list)
    bounds, uppers, shares = dict[int, Bound](), dict[int, float](), list[float]()
    windows = valid(records, metric)
    for record in windows:
        shares.append(record.served_share)
        found[record.block].append(record.metrics[metric])
        if bound := record.bound(metric):
            bounds[record.block] = bound
        elif failed := record.detail.get("peaks", {}).get(metric, {}).get("failed"):
            uppers[record.block] = failed
    values = {block: float(np.median(of_block)) for block, of_block in sorted(found.items())}
    counted = sum(record.counted(metric) for record in windows)
    return Sample(values, bounds, uppers, METRICS[metric].most, float(np.median(shares or [1.0])), counted)


def measured_for(records: Sequence[WindowRecord], row: Published, with_limits: bool = False) -> list[Cell]:
    """A published metric in each condition; if higher is better, of each start the best window.

    Echo and sink are no servers beside published ones: only `with_limits` has them.
    """
    servers = [record for record in records if with_limits or record.levels.get("server.name") not in WITHOUT_DNS]
    chosen = [record for record in selected(servers, **row.of) if not record.copy]
    highest = METRICS[row.metric].better == "higher"
    settled = {*row.of, *(name for record in chosen for name in record.within if highest)}
    cells = []
    for levels in conditions(valid(chosen, row.metric), settled, ("server.name",)):
        windows = selected(chosen, **levels)
        sample = sample_of(best_of_each_block(windows, row.metric) if highest else windows, row.metric)
        if sample.values:
            cells.append(cell_of(levels, 0, sample))
    return cells


def conditions(
    windows: Sequence[WindowRecord], settled: Collection[str], shown: Collection[str]
) -> list[dict[str, str]]:
    """The combinations of the levels of all factors that vary or are `shown`, except the `settled` ones.

    A value over several conditions describes none of them. There is always one, which may have no levels.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for name, level in itertools.chain.from_iterable(record.levels.items() for record in windows):
        found[name].add(level)
    open_ = [n for n, levels in found.items() if n not in settled and (len(levels) > 1 or n in shown)]
    of_all = [record.levels for record in windows if record.levels.keys() >= {*open_}]  # a start that failed lacks some
    measured = dict.fromkeys(tuple(levels[name] for name in open_) for levels in of_all)
    return [dict(zip(open_, levels, strict=True)) for levels in measured] or [{}]


def valid(records: Iterable[WindowRecord], metric: str) -> list[WindowRecord]:
    """The valid windows that have the metric."""
    return [record for record in records if record.has(metric)]


def cell_of(levels: dict[str, str], copy: int, sample: Sample) -> Cell:
    """The summary of a sample."""
    numbers = list(sample.values.values())
    marked = [list(sample.values)[i] for i in intervals.outliers(numbers)]
    variation = math.nan if sample.bounds else intervals.variation(numbers)
    return Cell(levels, copy, sample, *sample.median(), variation, marked)


def best_of_each_block(records: Sequence[WindowRecord], metric: str) -> list[WindowRecord]:
    """The window with the highest value in each block; a rate is a lower bound if more might have been answered."""
    best: dict[int, WindowRecord] = {}
    offered: dict[int, float] = {}
    for record in valid(records, metric):
        offered[record.block] = max(offered.get(record.block, 0.0), record.metrics.get("offered_qps", 0.0))
        if record.block not in best or record.metrics[metric] > best[record.block].metrics[metric]:
            best[record.block] = record
    return [_bounded_by_offer(record, offered[block]) for block, record in best.items()]


def _bounded_by_offer(record: WindowRecord, highest: float) -> WindowRecord:
    """Marks the answered rate as `at least` if all queries of the highest offered rate were answered."""
    if record.metrics.get("offered_qps") != highest or record.metrics.get("answered_share", 0.0) < ANSWERED:
        return record
    return replace(record, bounds={"answered_qps": "at least", **record.bounds})


def grouped(cells: Sequence[Cell], analysis: AnalysisSpec) -> dict[Levels, list[Cell]]:
    """The cells by the levels of all factors but the compared one."""
    found: dict[Levels, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[tuple((name, level) for name, level in cell.levels.items() if name != analysis.compare)].append(cell)
    return found


def _stratum(levels: dict[str, str], cells: list[Cell], metric: str, analysis: AnalysisSpec, alarm: bool) -> Stratum:
    firsts = [cell for cell in cells if not cell.copy]
    base = next((cell for cell in firsts if cell.levels[analysis.compare] == analysis.baseline), None)
    if base is None or len(firsts) < 2:
        return Stratum(levels, [])
    others = {cell.levels[analysis.compare]: cell.sample for cell in firsts if cell is not base}
    stratum = _compared(levels, base.sample, others, metric, analysis, alarm)
    alike = [cell for cell in firsts if effects.is_comparable(metric, base.sample, cell.sample)]
    enough = [cell for cell in alike if len(cell.values) >= MIN_STARTS and cell.sample.positive]
    groups = {cell.levels[analysis.compare]: cell.values for cell in enough}
    if len(groups) < 2 or analysis.baseline not in groups or any(cell.sample.bounds for cell in enough):
        return stratum
    return _with_group_tests(stratum, groups, analysis.baseline)


def _with_group_tests(stratum: Stratum, groups: dict[str, dict[int, float]], baseline: str) -> Stratum:
    """Adds the tests over all levels; they need values, not bounds."""
    values = {name: list(by_block.values()) for name, by_block in groups.items()}
    dunn = {pair.b: pair.p for pair in group_tests.dunn_to_baseline(values, baseline)}
    dunnett = {pair.b: pair.p for pair in group_tests.dunnett(values, baseline)}
    return replace(
        stratum,
        comparisons=[
            replace(each, dunn=dunn.get(each.level, math.nan), dunnett=dunnett.get(each.level, math.nan))
            for each in stratum.comparisons
        ],
        omnibus=[test for test in (group_tests.kruskal(values), group_tests.friedman(groups)) if test],
        variances=group_tests.brown_forsythe(values),
        groups=values,
    )


def _compared(
    levels: dict[str, str], base: Sample, others: Mapping[str, Sample], metric: str, analysis: AnalysisSpec, alarm: bool
) -> Stratum:
    """The comparisons of one family, and the outcomes of levels without a ratio, unless every value is zero."""
    found = {
        level: effects.compared(metric, base, sample, analysis.margin, len(others)) or effects.separation(base, sample)
        for level, sample in others.items()
    }
    tested = {level: effect for level, effect in found.items() if effect}
    corrected = dict(zip(tested, ratio_effect.corrected(list(tested.values())), strict=True))
    ratios = {level: effect for level, effect in corrected.items() if not math.isnan(effect.ratio)}
    comparisons = [
        LevelComparison(levels, analysis.compare, level, effect, effects.classify(effect, metric, alarm))
        for level, effect in ratios.items()
    ]
    if not ratios and not any(value for sample in (base, *others.values()) for value in sample.values.values()):
        return Stratum(levels, [])
    without = {
        level: effects.without_ratio(metric, base, sample, corrected[level].p if level in corrected else 1.0, alarm)
        for level, sample in others.items()
        if level not in ratios
    }
    return Stratum(levels, comparisons, without)
