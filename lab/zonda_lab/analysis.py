"""Analyses window records: medians per treatment, comparisons with the baseline, A/A control, published claims."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from zonda_lab import statistics as st
from zonda_lab.experiment import AnalysisSpec, Claim, Published
from zonda_lab.metrics import METRICS, level_words
from zonda_lab.results import WindowRecord, selected

ComparisonOutcome = Literal["better", "worse", "different", "equivalent", "inconclusive", "too few starts"]
Levels = tuple[tuple[str, str], ...]
MIN_STARTS = 3  # with fewer, no comparison is made


@dataclass(frozen=True)
class Cell:
    """One metric of one treatment over all its starts."""

    levels: dict[str, str]
    copy: int
    values: dict[int, float]
    median: float
    low: float
    high: float
    variation: float
    outliers: list[int]

    @property
    def label(self) -> str:
        """The levels as text."""
        return ", ".join(itertools.starmap(level_words, self.levels.items())) + (" (again)" if self.copy else "")


@dataclass(frozen=True)
class LevelComparison:
    """A level compared with the baseline, all other levels being equal."""

    stratum: dict[str, str]
    factor: str
    level: str
    effect: st.Effect
    p: float
    dunn: float
    dunnett: float
    outcome: ComparisonOutcome


@dataclass(frozen=True)
class Stratum:
    """The comparisons of one factor at fixed levels of all other factors."""

    levels: dict[str, str]
    omnibus: list[st.Test]
    variances: st.Test | None
    comparisons: list[LevelComparison]
    tukey: list[st.PairwiseTest]
    games_howell: list[st.PairwiseTest]


@dataclass(frozen=True)
class MetricAnalysis:
    """The analysis of one metric of one experiment."""

    metric: str
    cells: list[Cell]
    strata: list[Stratum] = field(default_factory=list)
    aa_control: tuple[int, int] = (0, 0)  # significant A/A comparisons, all A/A comparisons


@dataclass(frozen=True)
class ClaimCheck:
    """A published claim and the value measured here."""

    claim: Claim
    value: float | None
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    server: str = ""

    @property
    def outcome(self) -> str:
        """Whether the confidence interval lies inside the claimed range, outside it, or across a bound."""
        if self.value is None:
            return "not measured"
        if self.claim.low <= self.low and self.high <= self.claim.high:
            return "confirmed"
        return "refuted" if self.high < self.claim.low or self.claim.high < self.low else "inconclusive"


def analyse(records: Sequence[WindowRecord], analysis: AnalysisSpec) -> list[MetricAnalysis]:
    """Analyses every metric that was measured, the primary metric first."""
    wanted = dict.fromkeys([analysis.metric, *analysis.metrics])
    return [
        analyse_metric(records, metric, analysis)
        for metric in wanted
        if any(metric in record.metrics and record.counts_for(metric) for record in records)
    ]


def analyse_metric(records: Sequence[WindowRecord], metric: str, analysis: AnalysisSpec) -> MetricAnalysis:
    """Cells, comparisons and A/A control of one metric."""
    cells = tabulate(records, metric)
    if not analysis.baseline:
        return MetricAnalysis(metric, cells)
    grouped: dict[Levels, list[Cell]] = defaultdict(list)
    for cell in cells:
        grouped[tuple((name, level) for name, level in cell.levels.items() if name != analysis.compare)].append(cell)
    strata = [_stratum(dict(key), group, metric, analysis) for key, group in grouped.items()]
    aa_pairs = [
        _common(first, second)
        for group in grouped.values()
        for first, second in itertools.product(group, group)
        if first.levels == second.levels
        and (first.copy, second.copy) == (0, 1)
        and _positive(first)
        and _positive(second)
    ]
    aa_control = st.significant_aa_pairs(aa_pairs, analysis.margin)
    return MetricAnalysis(metric, cells, [stratum for stratum in strata if stratum.comparisons], aa_control)


def tabulate(records: Iterable[WindowRecord], metric: str) -> list[Cell]:
    """One cell per treatment; windows with the same levels in one start are reduced to their median."""
    values: dict[tuple[Levels, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in _valid(records, metric):
        values[tuple(record.levels.items()), record.copy][record.block].append(record.metrics[metric])
    return [
        _cell(dict(levels), copy, {b: float(np.median(v)) for b, v in blocks.items()})
        for (levels, copy), blocks in values.items()
    ]


def check_claim(records: Sequence[WindowRecord], claim: Claim) -> list[ClaimCheck]:
    """Checks a claim for each measured server; once if it names its server or nothing was measured."""
    servers = dict.fromkeys(
        record.treatment["server.name"]
        for record in _valid(selected(records, **claim.of), claim.metric)
        if "server.name" in record.treatment
    )
    if "server.name" in claim.of or len(servers) < 2:
        return [_check(records, claim)]
    return [replace(_check(selected(records, **{"server.name": name}), claim), server=name) for name in servers]


def _check(records: Sequence[WindowRecord], claim: Claim) -> ClaimCheck:
    """Checks a median, a ratio of medians paired by block, or a ratio of coefficients of variation."""
    if claim.spread:
        return _check_spread([record for record in records if not record.copy], claim)
    top = _by_block(selected(records, **claim.of), claim.metric)
    if not top:
        return ClaimCheck(claim, None)
    if not claim.to:
        return ClaimCheck(claim, *st.median_interval(list(top.values())), len(top))
    bottom = _by_block(selected(records, **claim.to), claim.metric)
    blocks = [block for block in top if block in bottom and top[block] > 0 and bottom[block] > 0]
    if not blocks:
        return ClaimCheck(claim, None)
    ratios = np.log([top[block] / bottom[block] for block in blocks])
    low, high = st.interval(ratios)
    return ClaimCheck(claim, math.exp(st.hodges_lehmann(ratios)), math.exp(low), math.exp(high), len(blocks))


def _check_spread(records: Sequence[WindowRecord], claim: Claim) -> ClaimCheck:
    """Ignores second baselines: the mean of two starts varies less than a single start."""
    top, bottom = (
        list(_by_block(selected(records, **levels), claim.metric).values()) for levels in (claim.of, claim.to)
    )
    if min(len(top), len(bottom)) < MIN_STARTS:
        return ClaimCheck(claim, None)
    return ClaimCheck(claim, *st.variation_ratio(bottom, top), min(len(top), len(bottom)))


def measured_for(records: Sequence[WindowRecord], row: Published) -> list[Cell]:
    """A published metric per server: of each start the best window if higher is better, else the median."""
    chosen = [record for record in selected(records, **row.of) if not record.copy]
    best = max if METRICS[row.metric].better == "higher" else np.median
    servers = dict.fromkeys(record.treatment.get("server.name", "") for record in chosen)
    cells = []
    for server in servers:
        blocks: dict[int, list[float]] = defaultdict(list)
        for record in _valid(selected(chosen, **{"server.name": server}), row.metric):
            blocks[record.block].append(record.metrics[row.metric])
        if blocks:
            cells.append(_cell({"server.name": server}, 0, {block: float(best(v)) for block, v in blocks.items()}))
    return cells


def classify(effect: st.Effect, p: float, metric: str) -> ComparisonOutcome:
    """What the interval, the corrected p value and the equivalence test support."""
    if effect.n < MIN_STARTS:
        return "too few starts"
    if p < st.ALPHA and not effect.low <= 1 <= effect.high:
        if METRICS[metric].better == "neither":
            return "different"
        return "better" if (effect.ratio < 1) == (METRICS[metric].better == "lower") else "worse"
    return "equivalent" if effect.equivalent else "inconclusive"


def _cell(levels: dict[str, str], copy: int, values: dict[int, float]) -> Cell:
    ordered = dict(sorted(values.items()))
    numbers = list(ordered.values())
    median, low, high = st.median_interval(numbers)
    marked = [list(ordered)[i] for i in st.outliers(numbers)]
    return Cell(levels, copy, ordered, median, low, high, st.variation(numbers), marked)


def _stratum(levels: dict[str, str], cells: list[Cell], metric: str, analysis: AnalysisSpec) -> Stratum:
    firsts = [cell for cell in cells if not cell.copy and _positive(cell)]
    names = [cell.levels[analysis.compare] for cell in firsts]
    base = next((cell for cell in firsts if cell.levels[analysis.compare] == analysis.baseline), None)
    if base is None or len(firsts) < 2:
        return Stratum(levels, [], None, [], [], [])
    comparisons = _comparisons(levels, base, [cell for cell in firsts if cell is not base], metric, analysis)
    groups = {
        name: list(cell.values.values())
        for name, cell in zip(names, firsts, strict=True)
        if len(cell.values) >= MIN_STARTS
    }
    if len(groups) < 2 or analysis.baseline not in groups:
        return Stratum(levels, [], None, comparisons, [], [])
    dunn = {pair.b: pair.p for pair in st.dunn_to_baseline(groups, analysis.baseline)}
    dunnett = {pair.b: pair.p for pair in st.dunnett(groups, analysis.baseline)}
    comparisons = [
        replace(c, dunn=dunn.get(c.level, math.nan), dunnett=dunnett.get(c.level, math.nan)) for c in comparisons
    ]
    omnibus = [st.kruskal(groups)]
    if len(groups) > 2 and len({len(values) for values in groups.values()}) == 1:
        omnibus.append(st.friedman(groups))
    return Stratum(levels, omnibus, st.brown_forsythe(groups), comparisons, st.tukey(groups), st.games_howell(groups))


def _comparisons(
    levels: dict[str, str], base: Cell, others: list[Cell], metric: str, analysis: AnalysisSpec
) -> list[LevelComparison]:
    pairs = [(cell.levels[analysis.compare], *_common(base, cell)) for cell in others]
    pairs = [pair for pair in pairs if pair[1]]
    effects = [(level, st.paired_effect(a, b, analysis.margin, len(pairs))) for level, a, b in pairs]
    corrected = st.holm([effect.p for _, effect in effects])
    return [
        LevelComparison(levels, analysis.compare, level, effect, p, math.nan, math.nan, classify(effect, p, metric))
        for (level, effect), p in zip(effects, corrected, strict=True)
    ]


def _common(a: Cell, b: Cell) -> tuple[list[float], list[float]]:
    blocks = [block for block in a.values if block in b.values]
    return [a.values[block] for block in blocks], [b.values[block] for block in blocks]


def _positive(cell: Cell) -> bool:
    return min(cell.values.values()) > 0


def _by_block(records: Sequence[WindowRecord], metric: str) -> dict[int, float]:
    found: dict[int, list[float]] = defaultdict(list)
    for record in _valid(records, metric):
        found[record.block].append(record.metrics[metric])
    return {block: float(np.median(values)) for block, values in found.items()}


def _valid(records: Iterable[WindowRecord], metric: str) -> list[WindowRecord]:
    """The valid windows that have the metric, without the trials of a peak search."""
    return [r for r in records if metric in r.metrics and r.counts_for(metric) and not r.detail.get("trial")]
