"""Tables of a report: published figures, published claims, and each analysed metric."""

import itertools
import math
from collections.abc import Sequence

from zonda_lab.analysis.analysis import Cell, LevelComparison, MetricAnalysis, measured_for
from zonda_lab.analysis.claims import ClaimCheck
from zonda_lab.experiments.definition import AnalysisSpec, Published
from zonda_lab.experiments.metrics import METRICS, factor_words, level_words
from zonda_lab.report.document import Folded, Heading, Part, Table, Text
from zonda_lab.report.number_format import (
    difference,
    margin_text,
    measured,
    minimum_effect,
    number,
    p_value,
    resolution,
)
from zonda_lab.report.rig_limits import Echo
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.statistics.ratio_effect import Effect

MOST_VALUES = 12  # beside a published figure
MOODS = {
    "better": "good",
    "worse": "bad",
    "inconclusive": "dim",
    "withheld": "dim",
    "not testable here": "dim",
    "not measured": "dim",
    "too few starts": "dim",
    "confirmed": "good",
    "refuted": "bad",
}


def published(rows: Sequence[Published], records: Sequence[WindowRecord]) -> list[Part]:
    """Published figures next to the values measured here."""
    if not rows:
        return []
    return [
        Table(
            ["published result", "value", "measured here: median (95 % interval)"],
            [[r.what, r.figure, measured_here(r, records)] for r in rows],
        )
    ]


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
        [done.claim.says, done.claim.published, done.condition, claim_value(done), str(done.n), done.outcome]
        for done in checked
    ]
    parts: list[Part] = [
        Heading(3, "Claims"),
        Table(
            ["claim", "published", "condition", "measured here (95 % interval)", "blocks", "verdict"],
            rows,
            [MOODS.get(c.outcome, "") for c in checked],
        ),
    ]
    needs = dict.fromkeys(f"{done.claim.says}: {done.claim.untestable}" for done in checked if done.claim.untestable)
    return [*parts, *(Text(f"{need}.", "Not testable here.") for need in needs)]


def claim_value(done: ClaimCheck) -> str:
    """The measured value of a claim as text; empty if nothing was measured."""
    if done.text or done.value is None:
        return done.text
    return ("exponent " if done.claim.shape else "") + measured(done.value, done.low, done.high, done.bound)


def metric_tables(found: MetricAnalysis, analysis: AnalysisSpec, echo: Echo) -> list[Part]:
    """One metric: medians, comparisons with the baseline, A/A control, and all pairs folded away."""
    metric = METRICS[found.metric]
    parts: list[Part] = [
        Heading(3, metric.heading + (f", {metric.unit}" if metric.unit else "")),
        _medians(found, echo),
    ]
    if found.strata:
        parts.append(_comparison_table(found, analysis, metric.margin))
    if found.comparisons:
        parts.append(_aa_control(found))
        parts.append(Folded("Omnibus tests, all pairs", _pairs(found)))
    return parts


def effect_text(effect: Effect, absolute: float) -> str:
    """The ratio, or the absolute difference, with its interval."""
    if absolute:
        return difference(effect.ratio, effect.low, effect.high)
    return measured(effect.ratio, effect.low, effect.high, effect.bound)


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
    share = echo.share(metric, cell)
    return "" if share is None else f"{f'{cell.bound} ' if cell.bound else ''}{share:.0%}"


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
    """One row per level; those without a ratio, because a value is zero, stand last."""
    head = [
        *map(factor_words, found.strata[0].levels),
        factor_words(analysis.compare),
        f"{'difference from' if absolute else 'ratio to'} {analysis.baseline} (95 % interval)",
        "p (Holm)",
        "p Dunn",
        "p Dunnett",
        "outcome",
    ]
    rows = [
        [
            *each.stratum.values(),
            each.level,
            effect_text(each.effect, absolute),
            p_value(each.effect.p),
            p_value(each.dunn),
            p_value(each.dunnett),
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
        "inconclusive": f"inconclusive, minimum detectable effect {minimum_effect(each.effect.mde, absolute)}",
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
        levels = ", ".join(itertools.starmap(level_words, stratum.levels.items()))
        tests = [*stratum.omnibus, *([stratum.variances] if stratum.variances else [])]
        results = "; ".join(f"{test.name}: statistic {test.statistic:.3g}, p {p_value(test.p)}" for test in tests)
        parts.append(Text(results or "not computed: too few starts, or values that are only bounds", levels))
        rows = [
            [
                f"{one.b} / {one.a}",
                p_value(one.p),
                f"{one.low:.3f} – {one.high:.3f}",
                p_value(other.p),
                f"{other.low:.3f} – {other.high:.3f}",
            ]
            for one, other in zip(stratum.tukey, stratum.games_howell, strict=True)
        ]
        if rows:
            parts.append(Table(["pair", "p Tukey", "interval", "p Games-Howell", "interval"], rows))
    return parts
