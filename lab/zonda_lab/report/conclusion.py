"""What an experiment shows, in sentences: made from the findings alone, so that nobody has to believe a commentary."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from zonda_lab.analysis import MIN_STARTS, ClaimCheck, LevelComparison, MetricAnalysis
from zonda_lab.experiment import AnalysisSpec
from zonda_lab.metrics import METRICS, level_words
from zonda_lab.report.number_format import least, number, ratio

MOST = 6  # things told one by one; more of them are counted


def shown(finding: MetricAnalysis | None, claims: Sequence[ClaimCheck], analysis: AnalysisSpec) -> str:
    """The deciding metric and the published claims; says so if nothing can be said."""
    return " ".join([deciding(finding, analysis, MOST), *(_claims(claims) if finding else [])])


def deciding(finding: MetricAnalysis | None, analysis: AnalysisSpec, most: int = 3) -> str:
    """The deciding metric alone, at most so many things one by one."""
    if finding is None or not finding.cells:
        return "Nothing: no window was valid."
    return _differences(finding, analysis, most) or _medians(finding, most)


def _differences(finding: MetricAnalysis, analysis: AnalysisSpec, most: int) -> str:
    """What differs from the baseline, what is equal, and of what neither can be said."""
    comparisons = [each for stratum in finding.strata for each in stratum.comparisons if each.verdict != "too few"]
    if not comparisons:
        return ""
    metric = METRICS[finding.metric]
    verdicts = ("better", "worse", "different")
    differing = sorted((c for c in comparisons if c.verdict in verdicts), key=lambda c: -abs(math.log(c.effect.ratio)))
    told = [f"{_place(c)}: {ratio(c.effect.ratio, c.effect.low, c.effect.high)}" for c in differing[:most]]
    more = [f"{len(differing) - most} more in the tables"] if len(differing) > most else []
    equal = [_place(c) for c in comparisons if c.verdict == "equal"]
    unknown = [c for c in comparisons if c.verdict == "undetected"]
    parts = [
        *([f"different: {'; '.join([*told, *more])}"] if told else []),
        *([f"equal within {analysis.margin:.0%}: {_listed(equal, most)}"] if equal else []),
        *(
            [
                f"no difference detected, which would have been seen from {_seen(unknown)} on: "
                f"{_listed([_place(c) for c in unknown], most)}"
            ]
            if unknown
            else []
        ),
    ]
    baseline = level_words(analysis.compare, analysis.baseline)
    return f"{metric.heading}, as a ratio to {baseline} (n {_starts(comparisons)} starts): {'; '.join(parts)}."


def _medians(finding: MetricAnalysis, most: int) -> str:
    """With too few starts for any test: what was measured, and that it proves no difference."""
    metric = METRICS[finding.metric]
    cells = [cell for cell in finding.cells if not cell.copy]
    told = [f"{cell.label}: {number(cell.median)}" for cell in cells[:most]]
    more = [f"{len(cells) - most} more in the table"] if len(cells) > most else []
    few = (
        f" Fewer than {MIN_STARTS} starts: differences may be chance."
        if any(len(c.values) < MIN_STARTS for c in cells)
        else ""
    )
    return f"{metric.heading}{f' in {metric.unit}' if metric.unit else ''}: {'; '.join([*told, *more])}.{few}"


def _claims(claims: Sequence[ClaimCheck]) -> list[str]:
    """A sentence a claim: with its outcome, or that of each server."""
    told = []
    for (says, figure), group in itertools.groupby(claims, lambda done: (done.claim.says, done.claim.published)):
        outcomes = [" ".join(filter(None, (done.server, outcome(done)))) for done in group]
        told.append(f"Published: {says} ({figure}). Here: {'; '.join(outcomes)}.")
    return told


def outcome(done: ClaimCheck) -> str:
    """`1.11, confirmed`."""
    return done.outcome if done.value is None else f"{number(done.value)}, {done.outcome}"


def _place(comparison: LevelComparison) -> str:
    return ", ".join(
        [level_words(comparison.factor, comparison.level), *itertools.starmap(level_words, comparison.stratum.items())]
    )


def _listed(names: Sequence[str], most: int) -> str:
    return "; ".join(names) if len(names) <= most else f"{len(names)} of them"


def _seen(comparisons: Sequence[LevelComparison]) -> str:
    """The range of the least differences that would have been seen."""
    low, high = (least(f(c.effect.detectable for c in comparisons)) for f in (min, max))
    return low if low == high else f"{low} to {high}"


def _starts(comparisons: Sequence[LevelComparison]) -> str:
    counts = {c.effect.n for c in comparisons}
    return str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
