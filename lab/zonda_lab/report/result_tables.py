"""Tables of a report: published figures, published claims, and each analysed metric."""

import math
from collections.abc import Sequence

import numpy as np

from zonda_lab.analysis.analysis import Cell, LevelComparison, MetricAnalysis, measured_for, tabulate
from zonda_lab.analysis.claims import ClaimCheck
from zonda_lab.analysis.effects import bound_of_ratio
from zonda_lab.experiments.definition import AnalysisSpec, Claim, Published
from zonda_lab.experiments.metrics import LIMITS, METRICS, factor_words, words
from zonda_lab.report.document import Folded, Heading, Part, Table, Text
from zonda_lab.report.number_format import (
    effect_text,
    margin_text,
    measured,
    minimum_effects,
    number,
    p_value,
    resolution,
)
from zonda_lab.results.window_record import Bound, WindowRecord
from zonda_lab.statistics.group_tests import PairwiseTest

MOST_VALUES = 12  # beside a published figure
CAPACITY = "capacity_qps"
UNDECIDED = ("inconclusive", "withheld", "not testable here", "not measured", "too few starts")
MOODS = dict.fromkeys(("better", "confirmed"), "good") | dict.fromkeys(("worse", "refuted"), "bad")
MOODS |= dict.fromkeys(UNDECIDED, "dim")


class Echo:
    """The echo server's metrics for each treatment of an experiment."""

    def __init__(self, records: Sequence[WindowRecord]) -> None:
        self.records = [record for record in records if record.counts]
        self.own = [record for record in self.records if record.server.get("kind") == "echo"]

    def latency(self, metric: str, cell: Cell) -> float | None:
        """The echo's latency at the levels of the cell; None if it was not measured."""
        recorded = [r.echo[metric] for r in self._like(cell) if metric in r.echo]
        if recorded:
            return float(np.median(recorded))
        same = self._beside(metric, cell)
        return same.median if same else None

    def share(self, metric: str, cell: Cell) -> str:
        """The rate as a share of the echo's highest rate in the same rig and transport; empty if not known.

        A peak, of an open loop, is one of the echo's peak, not of its rate in a closed loop.
        """
        if not METRICS[metric].capacity or cell.levels.get("server.name") in LIMITS:
            return ""
        is_peak = metric.startswith("peak_")
        if peaks := [
            (r.echo[metric], _echo_bound(r, metric)) for r in self._like(cell) if is_peak and metric in r.echo
        ]:
            middle, bound = float(np.median([peak for peak, _ in peaks])), max(bound for _, bound in peaks)
            return f"{_share(cell, middle, bound)} of {f'{bound} {number(middle)}'.lstrip()}"
        limits = [limit for r in self._like(cell) if (limit := r.echo.get(CAPACITY) or r.metrics.get("echo_qps"))]
        if limits:
            same = self._beside(metric, cell)
            return _share(cell, float(np.median(limits)), same.bound if same else "")
        fastest = max(tabulate(self.own, metric), key=lambda own: own.median, default=None)
        return _share(cell, fastest.median, fastest.bound) if fastest else ""

    def _beside(self, metric: str, cell: Cell) -> Cell | None:
        """The echo's own cell at the levels of this one."""
        levels = {**cell.levels, "server.name": "echo"}
        return next((own for own in tabulate(self.own, metric) if own.levels == levels), None)

    def _like(self, cell: Cell) -> list[WindowRecord]:
        return [record for record in self.records if record.levels == cell.levels]


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


def measured_here(row: Published, records: Sequence[WindowRecord], intervals: bool = True) -> str:
    """The values measured here for a published figure, in each condition."""
    if not row.metric:
        return "see below"
    unit, cells = f" {METRICS[row.metric].unit}".rstrip(), measured_for(records, row)
    if len(cells) > MOST_VALUES:
        return "see the tables"
    values = [f"{cell.label} {value_text(cell, intervals)}{unit}" for cell in cells]
    if not values:
        return "not measured"
    counts = {len(cell.values) for cell in cells}
    notes = [f"n = {counts.pop()}"] if len(counts) == 1 else []
    if METRICS[row.metric].better == "higher" and any(record.within for record in records):
        notes.append("best window of each start")
    return "; ".join(values) + (f" ({', '.join(notes)})" if notes and intervals else "")


def value_text(cell: Cell, interval: bool = True) -> str:
    """The median of a cell with its interval, `at least` if it is a lower bound."""
    if interval:
        return measured(cell.median, cell.low, cell.high, cell.bound)
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
            done.outcome,
        ]
        for done in checked
    ]
    head = ["claim", "published", "confirmed by", "condition", "measured here (95 % interval)", "blocks", "verdict"]
    table = Table(head, rows, [MOODS.get(c.outcome, "") for c in checked])
    parts: list[Part] = [Heading(3, "Claims"), table]
    for title, why in (("Not testable here.", _obstacle), ("Inconclusive.", lambda done: done.claim.unverified)):
        texts = dict.fromkeys(f"{done.claim.says}: {why(done)}." for done in checked if why(done))
        parts += [Text(text, title) for text in texts]
    return parts


def _obstacle(done: ClaimCheck) -> str:
    """Why the claim cannot be tested here, if so."""
    return done.claim.untestable or ": ".join(filter(None, (done.lacking and done.condition, done.lacking)))


def confirming_range(claim: Claim) -> str:
    """The range that the whole interval must lie in; empty for an order, which has none."""
    if claim.order or claim.untestable:
        return ""
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
    """The measured value of a claim as text; empty if nothing was measured."""
    if done.text or done.value is None:
        return done.text
    return ("exponent " if done.claim.shape else "") + measured(done.value, done.low, done.high, done.bound)


def metric_tables(found: MetricAnalysis, analysis: AnalysisSpec, echo: Echo) -> list[Part]:
    """One metric: medians, comparisons with the baseline, A/A control, and all pairs folded away."""
    metric = METRICS[found.metric]
    heading = metric.heading + (f", {metric.unit}" if metric.unit else "")
    parts: list[Part] = [Heading(3, heading), _medians(found, echo)]
    if found.strata:
        parts.append(_comparison_table(found, analysis, metric.margin))
    if found.comparisons:
        parts.append(_aa_control(found))
        parts.append(Folded("Omnibus tests, all pairs", _pairs(found)))
    return parts


def _medians(found: MetricAnalysis, echo: Echo) -> Table:
    """Medians with intervals; rates also as a share of echo, latencies beside echo's."""
    beside = {id(cell): _beside(found.metric, cell, echo) for cell in found.cells}
    title = "echo's latency" if METRICS[found.metric].is_latency else "share of echo"
    extra = [title] if any(beside.values()) else []
    head = [*map(factor_words, found.cells[0].levels if found.cells else []), "", "median", "95 % interval"]
    head += [*extra, "starts", "coefficient of variation", "outliers"]
    return Table(head, [_cell_row(cell, [beside[id(cell)]] if extra else []) for cell in found.cells])


def _beside(metric: str, cell: Cell, echo: Echo) -> str:
    if METRICS[metric].is_latency:
        floor = echo.latency(metric, cell)
        return "" if floor is None else number(floor)
    return echo.share(metric, cell)


def _cell_row(cell: Cell, extra: list[str]) -> list[str]:
    step = resolution(cell.low, cell.high)
    interval = "–" if math.isnan(cell.low) else f"{number(cell.low, step)} – {number(cell.high, step)}"
    return [
        *cell.levels.values(),
        "again" if cell.copy else "",
        value_text(cell, interval=False),
        interval,
        *extra,
        str(len(cell.values)),
        f"{cell.variation:.1%}",
        ", ".join(f"block {block}" for block in cell.outliers),
    ]


def _comparison_table(found: MetricAnalysis, analysis: AnalysisSpec, absolute: float) -> Table:
    """One row per level; those without a ratio, because a value is not positive, stand last."""
    ratio = f"{'difference from' if absolute else 'ratio to'} {analysis.baseline} (95 % interval)"
    head = [*map(factor_words, [*found.strata[0].levels, analysis.compare]), ratio]
    head += ["p (Holm)", "p Dunn", "p Dunnett", "outcome"]
    rows = [
        [
            *each.stratum.values(),
            each.level,
            effect_text(each.effect, absolute),
            *map(p_value, (each.effect.p, each.dunn, each.dunnett)),
            _outcome(each, absolute, analysis.margin),
        ]
        for each in found.comparisons
    ]
    moods = [MOODS.get(each.outcome, "") for each in found.comparisons]
    left_out = [
        [*stratum.levels.values(), level, *[p_value(math.nan)] * 4, why]
        for stratum in found.strata
        for level, why in stratum.without_ratio.items()
    ]
    return Table(head, [*rows, *left_out], [*moods, *["dim"] * len(left_out)])


def _outcome(each: LevelComparison, absolute: float, margin: float) -> str:
    if each.outcome == "inconclusive" and each.effect.bound:
        return "inconclusive: values are only bounds"
    return {
        "equivalent": f"equivalent within {margin_text(margin, absolute)} (p {each.effect.p_equivalence:.3f})",
        "inconclusive": f"inconclusive, {minimum_effects([each.effect.mde], absolute)}",
        "withheld": "withheld: A/A alarm",
    }.get(each.outcome, each.outcome)


def _aa_control(finding: MetricAnalysis) -> Text:
    significant, compared = finding.aa_control
    if not compared:
        return Text("too few starts of the repeated baseline.", "A/A control:")
    alarms = [", ".join(pair.levels.values()) or "the baseline" for pair in finding.aa_pairs if pair.alarm]
    text = f"{significant} of {compared} comparisons of the baseline with itself are significant"
    withheld = f"; verdicts are withheld for: {'; '.join(alarms)}" if alarms else ""
    return Text(f"{text} (5% expected by chance){withheld}.", "A/A control:")


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
            parts.append(Table(["pair", "p Tukey", "interval", "p Games-Howell", "interval"], rows))
    return parts


def _p_and_interval(pair: PairwiseTest) -> list[str]:
    return [p_value(pair.p), f"{pair.low:.3f} – {pair.high:.3f}"]
