"""Tables of a report: published figures, published claims, and each analysed metric."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from zonda_lab.analysis import effects
from zonda_lab.analysis.analysis import Cell, LevelComparison, MetricAnalysis, measured_for, tabulate
from zonda_lab.analysis.claims import ClaimCheck
from zonda_lab.analysis.effects import MIN_STARTS, Sample, bound_of_ratio
from zonda_lab.experiments.definition import AnalysisSpec, Claim, Published
from zonda_lab.experiments.metrics import GOALS, METRICS, WITHOUT_DNS, baseline_words, column_words, level_number, words
from zonda_lab.report.document import Folded, Heading, Part, Table, Text, filled_table
from zonda_lab.report.number_format import (
    NONE,
    WITHOUT_VALUE,
    effect_text,
    interval_text,
    margin_text,
    measured,
    minimum_effect,
    minimum_effects,
    number,
    p_value,
    resolution,
    share_text,
    span_text,
)
from zonda_lab.results.window_record import Bound, WindowRecord, selected
from zonda_lab.statistics.group_tests import PairwiseTest

MOST_VALUES = 12  # beside a published figure
CAPACITY = "capacity_qps"
UNDECIDED = ("inconclusive", "withheld", "not testable here", "not measured", "too few starts")
MOODS = dict.fromkeys(("better", "confirmed"), "good") | dict.fromkeys(("worse", "refuted"), "bad")
MOODS |= dict.fromkeys(UNDECIDED, "dim")


class EchoReference:
    """The echo server's metrics for each treatment of an experiment."""

    def __init__(self, records: Sequence[WindowRecord]) -> None:
        self.records = [record for record in records if record.counts]
        self.own = [record for record in self.records if record.server.get("kind") == "echo"]

    def latency(self, metric: str, cell: Cell) -> str:
        """The echo's valid latency at the levels of the cell, and a dash if there is none.

        Empty if it was not measured, is that of the cell, or was not checked: records of 2026-11 do not say.
        """
        if cell.levels.get("server.name") in WITHOUT_DNS:
            return ""
        if same := self._beside(metric, cell):
            return number(same.median)
        late = [
            (r.echo[metric], r.detail["limits"]["latency_reasons"])
            for r in self._like(cell)
            if metric in r.echo and "latency_reasons" in r.detail.get("limits", {})
        ]
        valid = [latency for latency, reasons in late if not reasons]
        return number(float(np.median(valid))) if valid else NONE if late else ""

    def share(self, metric: str, cell: Cell) -> str:
        """The rate as a share of the echo's highest rate in the same rig and transport; empty if not known.

        A peak, of an open loop, is one of the echo's peak, not of its rate in a closed loop.
        """
        if not METRICS[metric].capacity or cell.levels.get("server.name") in WITHOUT_DNS:
            return ""
        is_peak = metric in GOALS
        if peaks := [
            (r.echo[metric], _echo_bound(r, metric)) for r in self._like(cell) if is_peak and metric in r.echo
        ]:
            middle, bound = float(np.median([peak for peak, _ in peaks])), max(bound for _, bound in peaks)
            return f"{_share(cell, middle, bound)} (echo: {f'{bound} {number(middle)}'.lstrip()})"
        limits = [limit for r in self._like(cell) if (limit := r.echo.get(CAPACITY) or r.metrics.get("echo_qps"))]
        if limits:
            same = self._beside(metric, cell)
            return _share(cell, float(np.median(limits)), same.bound if same else "")
        comparable = [own for own in tabulate(self.own, metric) if _transport(own) == _transport(cell)]
        fastest = max(comparable, key=lambda own: own.median, default=None)
        return _share(cell, fastest.median, fastest.bound) if fastest else ""

    def _beside(self, metric: str, cell: Cell) -> Cell | None:
        """The echo's own cell at the levels of this one."""
        levels = {**cell.levels, "server.name": "echo"}
        return next((own for own in tabulate(self.own, metric) if own.levels == levels), None)

    def _like(self, cell: Cell) -> list[WindowRecord]:
        return [record for record in self.records if record.levels == cell.levels]


def _transport(cell: Cell) -> str:
    return cell.levels.get("traffic.transport", "")


def _echo_bound(record: WindowRecord, metric: str) -> Bound:
    """Whether echo's peak is a bound; older records do not say, and the generator always ended echo's search."""
    bound: Bound = record.detail.get("limits", {}).get("bounds", {metric: "at least"}).get(metric, "")
    return bound


def _share(cell: Cell, limit: float, limit_bound: Bound = "") -> str:
    bound = bound_of_ratio([limit_bound], [cell.bound])
    return bound if bound == "unknown" else f"{bound} {cell.median / limit:.0%}".lstrip()


def published(rows: Sequence[Published], records: Sequence[WindowRecord]) -> list[Part]:
    """Published figures next to the values measured here."""
    if not rows:
        return []
    head = ["published result", "value", "measured here: median (95 % interval)"]
    return [Table(head, [[row.what, row.figure, measured_here(row, records)] for row in rows])]


def measured_here(row: Published, records: Sequence[WindowRecord]) -> str:
    """The values measured here for a published figure, in each condition."""
    if not row.metric:
        return row.here
    unit, cells = f" {METRICS[row.metric].unit}".rstrip(), measured_for(records, row)
    if len(cells) > MOST_VALUES:
        return "see the tables"
    values = [f"{cell.label} {value_text(cell)}{unit}" for cell in cells]
    if not values:
        return "not measured"
    counts = [len(cell.values) for cell in cells]
    notes = [f"n = {span_text(min(counts), max(counts))}"]
    if METRICS[row.metric].better == "higher" and any(record.within for record in records):
        notes.append("best window of each start")
    title = "" if unit else f"{METRICS[row.metric].title}: "  # of a bare number
    return f"{title}{'; '.join(values)} ({', '.join(notes)})"


def value_text(cell: Cell, interval: bool = True, unit: str = "") -> str:
    """The median of a cell with its interval, `at least` if it is a lower bound."""
    if interval:
        return measured(cell.median, cell.low, cell.high, cell.bound, unit)
    text = number(cell.median, resolution(cell.low, cell.high))
    return f"{cell.bound} {text}" if cell.bound else text


def claims(checked: Sequence[ClaimCheck]) -> list[Part]:
    """Published claims, each with the measured value and the outcome."""
    if not checked:
        return []
    rows = [
        [
            done.claim.says,
            done.claim.published,
            confirming_range(done.claim),
            done.condition,
            claim_value(done),
            str(done.n),
            claim_verdict(done),
        ]
        for done in checked
    ]
    head = ["claim", "published", "confirmed by", "condition", "measured here (simultaneous 95 % interval)"]
    table = filled_table([*head, "blocks", "verdict"], rows, [MOODS.get(c.outcome, "") for c in checked])
    parts: list[Part] = [Heading(3, "Claims"), table]
    for title, why in (("Not testable here.", _obstacle), ("Inconclusive.", lambda done: done.claim.unverified)):
        texts = dict.fromkeys(f"{done.claim.says}: {why(done)}." for done in checked if why(done))
        parts += [Text(text, title) for text in texts]
    without = dict.fromkeys(f"{done.claim.says}: {', '.join(done.not_set)}." for done in checked if done.not_set)
    return parts + [Text(text, "Settings that could not be applied.") for text in without]


def _obstacle(done: ClaimCheck) -> str:
    """Why the claim cannot be tested here, if so."""
    return done.claim.untestable or ": ".join(filter(None, (done.lacking and done.condition, done.lacking)))


def confirming_range(claim: Claim) -> str:
    """The range that the whole interval must lie in; empty for an order, which has none."""
    if claim.order or claim.untestable:
        return ""
    if claim.event:
        return f"a start with less than {number(claim.event)}"
    low, high = claim.confirming
    step = resolution(low, high)
    if math.isinf(high):
        text = f"at least {number(low)}"
    elif math.isinf(low) or (low == 0 and not claim.shape):
        text = f"at most {number(high)}"
    else:
        text = f"{number(low, step)} – {number(high, step)}"
    return f"exponent {text}" if claim.shape else text


def claim_value(done: ClaimCheck) -> str:
    """The measured value of a claim as text, with its unit; empty if nothing was measured."""
    if done.text or done.value is None:
        return done.text
    if done.claim.shape and done.bound in WITHOUT_VALUE:
        return "unknown, as values are only bounds"
    unit = "" if done.claim.shape else "times" if done.claim.to else METRICS[done.claim.metric].unit
    return ("exponent " if done.claim.shape else "") + measured(done.value, done.low, done.high, done.bound, unit)


def claim_verdict(done: ClaimCheck) -> str:
    """The outcome of a claim; if it is not measured or inconclusive, with the reason that is not said elsewhere."""
    if done.unmeasured:
        return f"{done.outcome}: {done.unmeasured}"
    if done.outcome != "inconclusive" or done.decided or done.claim.unverified or done.bound in WITHOUT_VALUE:
        return done.outcome
    if done.n < MIN_STARTS:
        return f"{done.outcome}: fewer than {MIN_STARTS} starts"
    if not done.is_detectable:
        return f"{done.outcome}, {minimum_effects([done.mde])}"
    low, high = done.claim.confirming
    limits = [end for end in (low, high) if math.isfinite(end) and (end or done.claim.shape)]
    step = resolution(low, high) if len(limits) > 1 else None
    inside = [number(end, step) for end in limits if done.low <= end <= done.high]
    plural = "s" if len(inside) > 1 else ""
    why = f": the interval contains the limit{plural} {' and '.join(inside)}" if inside else ""
    return f"{done.outcome}{why}"


def metric_tables(found: MetricAnalysis, analysis: AnalysisSpec, echo: EchoReference) -> list[Part]:
    """One metric: medians, comparisons with the baseline, A/A control, and all pairs folded away."""
    metric = METRICS[found.metric]
    parts: list[Part] = [Heading(3, metric.axis[0].upper() + metric.axis[1:]), _medians(found, echo)]
    if found.strata:
        parts.append(_comparison_table(found, analysis, metric.margin, echo.records))
    if found.comparisons:
        parts.append(_aa_control(found))
        parts.append(Folded("Omnibus tests, all pairs", _pairs(found), only_page=True))
    return parts


def _medians(found: MetricAnalysis, echo: EchoReference) -> Table:
    """Medians with intervals; rates also as a share of echo, latencies beside echo's."""
    cells = found.cells
    columns = [
        *_level_columns([cell.levels for cell in cells], echo.records),
        ("run", ["again" if cell.copy else "" for cell in cells]),
        ("median", [value_text(cell, interval=False) for cell in cells]),
        ("95 % interval", [interval_text(cell.low, cell.high, resolution(cell.low, cell.high)) for cell in cells]),
        (_beside_head(found.metric), [_beside(found.metric, cell, echo) for cell in cells]),
        ("starts", [str(len(cell.values)) for cell in cells]),
        ("coefficient of variation", [share_text(cell.variation) for cell in cells]),
        ("outliers", [", ".join(f"block {block}" for block in cell.outliers) for cell in cells]),
    ]
    rows = list(map(list, zip(*(values for _, values in columns), strict=True)))
    return filled_table([head for head, _ in columns], rows)


def _level_columns(
    treatments: Sequence[Mapping[str, str]], records: Sequence[WindowRecord]
) -> list[tuple[str, list[str]]]:
    """A column per factor: its head, and the level of each treatment; shares of echo with the rate that they were."""
    names = list(treatments[0]) if treatments else []
    return [(column_words(name), [_level_text(name, levels, records) for levels in treatments]) for name in names]


def _level_text(name: str, levels: Mapping[str, str], records: Sequence[WindowRecord]) -> str:
    """`30,000`; of rates, which may be shares, `30,000 q/s` and `80% of echo (442,000 q/s)`."""
    level = levels[name]
    if name != "traffic.rate":
        return level_number(level) or level
    if "%" not in level:
        return f"{level_number(level)} q/s"
    offered = [r.metrics["offered_qps"] for r in selected(records, **levels) if "offered_qps" in r.metrics]
    return f"{level} ({span_text(number(min(offered)), number(max(offered)))} q/s)" if offered else level


def _beside_head(metric: str) -> str:
    return "echo's latency" if METRICS[metric].is_latency else "share of echo"


def _beside(metric: str, cell: Cell, echo: EchoReference) -> str:
    return echo.latency(metric, cell) if METRICS[metric].is_latency else echo.share(metric, cell)


def _comparison_table(
    found: MetricAnalysis, analysis: AnalysisSpec, absolute: float, records: Sequence[WindowRecord]
) -> Table:
    """One row per level; those without a ratio, because a value is not positive, stand last."""
    baseline = baseline_words(analysis.compare, analysis.baseline)
    ratio = f"{'difference from' if absolute else 'ratio to'} {baseline} (95 % interval)"
    without = [(stratum.levels, level, why) for stratum in found.strata for level, why in stratum.without_ratio.items()]
    treatments = [each.levels for each in found.comparisons]
    treatments += [{**levels, analysis.compare: level} for levels, level, _ in without]
    columns = _level_columns(treatments, records)
    levels = list(map(list, zip(*(texts for _, texts in columns), strict=True)))
    head = [
        *(head for head, _ in columns),
        ratio,
        "p (Holm)",
        "p Dunn",
        "p Dunnett",
        "minimum detectable effect",
        "outcome",
    ]
    rows = [
        [
            *texts,
            effect_text(each.effect, absolute),
            *map(p_value, (each.effect.p if _has_p_value(each) else math.nan, each.dunn, each.dunnett)),
            minimum_effect(math.nan if each.effect.bound or not _has_p_value(each) else each.effect.mde, absolute),
            _outcome(each, absolute, analysis.margin),
        ]
        for texts, each in zip(levels, found.comparisons, strict=False)
    ]
    moods = [MOODS.get(each.outcome, "") for each in found.comparisons]
    moods += [MOODS.get(outcome.partition(":")[0], "dim") for *_, outcome in without]
    rows += [[*texts, *[NONE] * 5, why] for texts, (*_, why) in zip(levels[len(rows) :], without, strict=True)]
    return Table(head, rows, moods)


def _has_p_value(each: LevelComparison) -> bool:
    """Not of one or two starts, of a ratio that is the same in all starts, nor of values that are all only bounds."""
    is_tested = each.outcome != "too few starts" and not each.effect.is_constant
    return is_tested and each.effect.bound not in WITHOUT_VALUE


def _outcome(each: LevelComparison, absolute: float, margin: float) -> str:
    if each.outcome == "inconclusive" and each.effect.bound == "unequal":
        return "no verdict: unequal shares answered"
    if each.outcome == "inconclusive" and each.effect.bound:
        return "no verdict: values are only bounds"
    if each.outcome == "withheld":
        return "withheld: A/A alarm"
    outcome: str = each.outcome
    if each.outcome == "equivalent":
        outcome = f"equivalent within {margin_text(margin, absolute)}"
        if each.effect.p_equivalence:
            return f"{outcome} (p {p_value(each.effect.p_equivalence)})"
    if each.effect.is_constant and each.effect.n >= MIN_STARTS:
        starts, is_same = f"in all {each.effect.n} starts", math.isclose(each.effect.ratio, 1)
        return f"the same {starts}" if is_same and each.effect.equivalent else f"{outcome}, identical {starts}"
    return outcome


def _aa_control(finding: MetricAnalysis) -> Text:
    significant, compared = finding.aa_control
    if not compared:
        return Text(_without_control(finding), "A/A control:")
    alarms = [words(pair.levels) or "the baseline" for pair in finding.aa_pairs if pair.alarm]
    text = f"{significant} of {compared} comparisons of the baseline with itself are significant"
    withheld = f"; verdicts are withheld for: {'; '.join(alarms)}" if alarms else ""
    return Text(f"{text} (5% expected by chance){withheld}.", "A/A control:")


def _without_control(finding: MetricAnalysis) -> str:
    """Why the repeated baseline is not compared with the first one, under any condition."""
    firsts = {cell.label: cell.sample for cell in finding.cells if not cell.copy}
    again = [(firsts.get(words(cell.levels), Sample({})), cell.sample) for cell in finding.cells if cell.copy]
    pairs = again or [(Sample({}), Sample({}))]
    reasons = dict.fromkeys(effects.obstacle(finding.metric, *pair) for pair in pairs)
    return f"the repeated baseline is not compared: {'; '.join(reasons)}."


def _pairs(finding: MetricAnalysis) -> list[Part]:
    parts: list[Part] = []
    for stratum in finding.strata:
        tests = [*stratum.omnibus, *([stratum.variances] if stratum.variances else [])]
        results = "; ".join(f"{test.name}: statistic {test.statistic:.3g}, p {p_value(test.p)}" for test in tests)
        untested = "not computed: too few starts, or values that are only bounds"
        parts.append(Text(results or untested, words(stratum.levels)))
        rows = [
            [f"{one.b} / {one.a}", *_p_and_interval(one), *_p_and_interval(other)]
            for one, other in zip(stratum.tukey, stratum.games_howell, strict=True)
        ]
        if rows:
            intervals = [f"ratio, 95 % interval ({test})" for test in ("Tukey", "Games-Howell")]
            parts.append(Table(["pair", "p Tukey", intervals[0], "p Games-Howell", intervals[1]], rows))
    return parts


def _p_and_interval(pair: PairwiseTest) -> list[str]:
    return [p_value(pair.p), interval_text(pair.low, pair.high, resolution(pair.low, pair.high))]
