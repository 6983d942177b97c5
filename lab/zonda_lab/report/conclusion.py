"""The result of an experiment in sentences, generated from its analysis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from zonda_lab.analysis import MIN_STARTS, ClaimCheck, LevelComparison, MetricAnalysis
from zonda_lab.experiment import AnalysisSpec
from zonda_lab.metrics import METRICS, level_words
from zonda_lab.report.number_format import minimum_effect, number, ratio

MOST = 6  # items listed by name; more are counted


def conclusion(finding: MetricAnalysis | None, claims: Sequence[ClaimCheck], analysis: AnalysisSpec) -> str:
    """The primary metric and the published claims."""
    return " ".join([primary_metric(finding, analysis, MOST), *(_claims(claims) if finding else [])])


def primary_metric(finding: MetricAnalysis | None, analysis: AnalysisSpec, most: int = 3) -> str:
    """The primary metric, with at most `most` items listed by name."""
    if finding is None or not finding.cells:
        return "No result: no window was valid."
    return _differences(finding, analysis, most) or _medians(finding, most)


def _differences(finding: MetricAnalysis, analysis: AnalysisSpec, most: int) -> str:
    """Which levels differ from the baseline, which are equivalent, and which are inconclusive."""
    comparisons = [
        each for stratum in finding.strata for each in stratum.comparisons if each.outcome != "too few starts"
    ]
    if not comparisons:
        return ""
    metric = METRICS[finding.metric]
    significant = [c for c in comparisons if c.outcome in ("better", "worse", "different")]
    differing = sorted(significant, key=lambda c: -abs(math.log(c.effect.ratio)))
    listed = [f"{_levels(c)} {ratio(c.effect.ratio, c.effect.low, c.effect.high)}" for c in differing[:most]]
    more = [f"{len(differing) - most} more in the tables"] if len(differing) > most else []
    equal = [_levels(c) for c in comparisons if c.outcome == "equivalent"]
    unknown = [c for c in comparisons if c.outcome == "inconclusive"]
    named = _listed([_levels(c) for c in unknown], most)
    parts = [
        *([f" Significantly different: {'; '.join([*listed, *more])}."] if listed else []),
        *([f" Equivalent within {analysis.margin:.0%}: {_listed(equal, most)}."] if equal else []),
        *([f" Inconclusive (minimum detectable effect {_mde_range(unknown)}): {named}."] if unknown else []),
    ]
    baseline = level_words(analysis.compare, analysis.baseline)
    return f"{metric.heading}, as a ratio to {baseline} (n = {_starts(comparisons)} starts).{''.join(parts)}"


def _medians(finding: MetricAnalysis, most: int) -> str:
    """The medians alone, where there are too few starts for a test."""
    metric = METRICS[finding.metric]
    cells = [cell for cell in finding.cells if not cell.copy]
    listed = [f"{cell.label}: {number(cell.median)}" for cell in cells[:most]]
    more = [f"{len(cells) - most} more in the table"] if len(cells) > most else []
    few = (
        f" Fewer than {MIN_STARTS} starts per treatment: differences may be due to chance."
        if any(len(c.values) < MIN_STARTS for c in cells)
        else ""
    )
    return f"{metric.heading}{f' in {metric.unit}' if metric.unit else ''}: {'; '.join([*listed, *more])}.{few}"


def _claims(claims: Sequence[ClaimCheck]) -> list[str]:
    """A sentence per claim, with its outcome for each server."""
    sentences = []
    for (says, figure), group in itertools.groupby(claims, lambda done: (done.claim.says, done.claim.published)):
        outcomes = [" ".join(filter(None, (done.server, claim_outcome(done)))) for done in group]
        sentences.append(f"Published claim: {says} ({figure}). Measured here: {'; '.join(outcomes)}.")
    return sentences


def claim_outcome(done: ClaimCheck) -> str:
    """`1.11, confirmed`."""
    return done.outcome if done.value is None else f"{number(done.value)}, {done.outcome}"


def _levels(comparison: LevelComparison) -> str:
    return ", ".join(
        [level_words(comparison.factor, comparison.level), *itertools.starmap(level_words, comparison.stratum.items())]
    )


def _listed(names: Sequence[str], most: int) -> str:
    return "; ".join(names) if len(names) <= most else f"{len(names)} comparisons"


def _mde_range(comparisons: Sequence[LevelComparison]) -> str:
    """The range of the minimum detectable effects."""
    low, high = (minimum_effect(f(c.effect.mde for c in comparisons)) for f in (min, max))
    return low if low == high else f"{low} to {high}"


def _starts(comparisons: Sequence[LevelComparison]) -> str:
    counts = {c.effect.n for c in comparisons}
    return str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
