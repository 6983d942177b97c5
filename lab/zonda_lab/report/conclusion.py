"""The result of an experiment in sentences and as a verdict of at most five words, generated from its analysis."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from zonda_lab.analysis import claims as checks
from zonda_lab.analysis.analysis import Cell, LevelComparison, MetricAnalysis
from zonda_lab.analysis.claims import ClaimCheck
from zonda_lab.analysis.effects import MIN_STARTS
from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.experiments.metrics import METRICS, baseline_words, words
from zonda_lab.report.number_format import effect_text, margin_text, minimum_effects, span_text
from zonda_lab.report.opening import Ranking
from zonda_lab.report.result_tables import claim_value, value_text

MOST = 3  # items listed by name; more are counted
TESTED = (checks.CONFIRMED, checks.REFUTED, checks.INCONCLUSIVE, checks.WITHHELD)
WORDS = (*TESTED, checks.NOT_TESTABLE, checks.NOT_MEASURED)
MOST_WORDS = 5  # of a verdict
UNDECIDED = ("equivalent", "inconclusive", "no verdict", "withheld")


def conclusion(
    finding: MetricAnalysis | None,
    claims: Sequence[ClaimCheck],
    analysis: AnalysisSpec,
    cost: Ranking | None = None,
    valid: int = 0,
) -> str:
    """The primary metric and the published claims; `cost` is the headline if the rig limited the primary metric."""
    headline = [_cost(cost)] if cost else []
    found = _claims(claims) if finding or _are_tested(claims) else []
    return " ".join([*headline, primary_metric(finding, analysis, valid), *found])


def verdict(claims: Sequence[ClaimCheck], finding: MetricAnalysis | None) -> str:
    """At most five words: the outcomes of the claims, the rarer kinds left out where they are too many."""
    has_primary = finding is not None and bool(finding.cells)
    if not has_primary and not _are_tested(claims):
        return checks.NOT_MEASURED
    count = Counter(done.outcome for done in claims)
    if not count and finding:
        alarmed = finding.comparisons and all(c.outcome == "withheld" for c in finding.comparisons)
        return checks.WITHHELD if alarmed else "measured; no published claim"
    if len(count) == 1:
        return next(iter(count))
    if not _are_tested(claims):
        return checks.NOT_MEASURED
    kinds = [f"{count[word]} {word.removesuffix(' here')}" for word in WORDS if count[word]]
    tested = [f"{count[word]} {word}" for word in TESTED if count[word]]
    of_all = [f"{count[word]}/{count.total()} {word}" for word in TESTED if count[word]]  # shows that some are left out
    choices = (", ".join(kinds), ", ".join(tested), ", ".join(of_all[:2]))
    return next(text for text in choices if len(text.split()) <= MOST_WORDS)


def primary_metric(finding: MetricAnalysis | None, analysis: AnalysisSpec, valid: int) -> str:
    """The primary metric, with the first items listed by name; `valid` windows may have other metrics."""
    if finding is None or not finding.cells:
        why = f"no valid window has the {METRICS[analysis.metric].title}" if valid else "no window was valid"
        return f"No result: {why}."
    return _differences(finding, analysis, MOST) or _medians(finding, MOST)


def _are_tested(claims: Sequence[ClaimCheck]) -> bool:
    """Whether a claim was tested, which may be one about another metric than the primary one."""
    return any(done.outcome in TESTED for done in claims)


def _cost(found: Ranking) -> str:
    """The cost of an answer, where rates are only lower bounds: of all servers at the same rate, where it matters."""
    who = "most servers" if found.missing else "every server"
    at = words(found.levels) + (f", without {', '.join(found.missing)}" if found.missing else "")
    rate = f" at the highest rate at which {who} answered all queries" if found.offered_qps else ""
    cells = [*found.servers, *([found.echo] if found.echo else [])]
    listed = "; ".join(f"{cell.levels['server.name']} {value_text(cell, unit='µs')}{_few(cell)}" for cell in cells)
    what = f"CPU time per answer{rate}{f' ({at})' if at else ''}"
    return f"The rig limited some rates, which are lower bounds. {what}: {listed}."


def _few(cell: Cell) -> str:
    """The starts of a value without an interval."""
    n = len(cell.values)
    return f" ({n} start{'s' if n > 1 else ''})" if n < MIN_STARTS else ""


def _differences(finding: MetricAnalysis, analysis: AnalysisSpec, most: int) -> str:
    """Which levels differ from the baseline, which are equivalent, and which have no verdict, and why."""
    found = [each for each in finding.comparisons if each.outcome != "too few starts"]
    if not found:
        return ""
    metric = METRICS[finding.metric]
    significant = [c for c in found if c.outcome in ("better", "worse", "different")]
    differing = sorted(significant, key=lambda c: -abs(math.log(c.effect.ratio)))
    listed = [f"{words(c.levels)} {effect_text(c.effect, metric.margin)}" for c in differing[:most]]
    more = [f"{len(differing) - most} more in the tables"] if len(differing) > most else []
    named = {outcome: [c for c in found if _outcome_of(c) == outcome] for outcome in UNDECIDED}
    names = {outcome: _listed([words(c.levels) for c in group], most) for outcome, group in named.items()}
    mde = f" ({minimum_effects(finding.detectable, metric.margin)})" if finding.detectable else ""
    unequal = sum(c.effect.bound == "unequal" for c in named["no verdict"])
    kinds = {"only bounds": len(named["no verdict"]) - unequal, "unequal shares answered": unequal}
    why = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)
    margin = margin_text(analysis.margin, metric.margin)
    parts = [
        f" Significantly different: {'; '.join([*listed, *more])}." if listed else "",
        f" Equivalent within {margin}: {names['equivalent']}." if named["equivalent"] else "",
        f" Inconclusive: {names['inconclusive']}{mde}." if named["inconclusive"] else "",
        f" No verdict: {names['no verdict']} ({why})." if named["no verdict"] else "",
        f" Withheld because of an A/A alarm: {names['withheld']}." if named["withheld"] else "",
    ]
    starts = span_text(min(c.effect.n for c in found), max(c.effect.n for c in found))
    baseline = baseline_words(analysis.compare, analysis.baseline)
    kind = "as a difference from" if metric.margin else "as a ratio to"
    return f"{metric.heading}, {kind} {baseline} (n = {starts} starts).{''.join(parts)}"


def _outcome_of(compared: LevelComparison) -> str:
    """Inconclusive for lack of power, or without a verdict whatever the power: bounds, or unequal shares answered."""
    return "no verdict" if compared.outcome == "inconclusive" and compared.effect.bound else compared.outcome


def _medians(finding: MetricAnalysis, most: int) -> str:
    """The medians alone, where there are too few starts for a test."""
    metric = METRICS[finding.metric]
    cells = [cell for cell in finding.cells if not cell.copy]
    listed = [f"{cell.label}: {value_text(cell, interval=False)}" for cell in cells[:most]]
    more = [f"{len(cells) - most} more in the table"] if len(cells) > most else []
    few = f" Fewer than {MIN_STARTS} starts per treatment: differences may be due to chance."
    is_small = any(len(cell.values) < MIN_STARTS for cell in cells)
    unit = f" in {metric.unit}" if metric.unit not in ("", "/s") else ""
    return f"{metric.heading}{unit}: {'; '.join([*listed, *more])}.{few if is_small else ''}"


def _claims(claims: Sequence[ClaimCheck]) -> list[str]:
    """A sentence per claim, with its outcome in each condition, or how many have which."""
    sentences = []
    for (says, figure), group in itertools.groupby(claims, lambda done: (done.claim.says, done.claim.published)):
        checked = list(group)
        if len(checked) > MOST:
            count = Counter(done.outcome for done in checked)
            outcomes = ", ".join(f"{word} in {n}" for word, n in count.most_common())
            outcomes = f"of {len(checked)} conditions {outcomes}; see the table of claims"
        else:
            outcomes = "; ".join(map(_outcome, checked))
        sentences.append(f"Published claim: {says} ({figure}). Measured here: {outcomes}.")
    return sentences


def _outcome(done: ClaimCheck) -> str:
    """`zonda: 1.11 (1.08 – 1.14), confirmed`."""
    value = ", ".join(filter(None, (claim_value(done), done.outcome)))
    return f"{done.condition}: {value}" if done.condition else value


def _listed(names: Sequence[str], most: int) -> str:
    return "; ".join(names) if len(names) <= most else f"{len(names)} comparisons"
