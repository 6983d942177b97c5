"""Tables of a report: published figures, published claims, and each analysed metric."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from zonda_lab.analysis import Cell, ClaimCheck, LevelComparison, MetricAnalysis, measured_for
from zonda_lab.experiment import AnalysisSpec, Published
from zonda_lab.metrics import METRICS, factor_words, level_words
from zonda_lab.report.document import Folded, Heading, Part, Table, Text
from zonda_lab.report.number_format import interval, minimum_effect, number, p_value
from zonda_lab.results import WindowRecord

MOODS = {
    "better": "good",
    "worse": "bad",
    "inconclusive": "dim",
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


def measured_here(row: Published, records: Sequence[WindowRecord]) -> str:
    """The values measured here for a published figure, per server."""
    if not row.metric:
        return "see below"
    unit, cells = f" {METRICS[row.metric].unit}".rstrip(), measured_for(records, row)
    values = [
        f"{cell.label} {interval(cell.median, cell.low, cell.high)}{unit}, n = {len(cell.values)}" for cell in cells
    ]
    return "; ".join(values) or "not measured"


def claims(checked: Sequence[ClaimCheck]) -> list[Part]:
    """Published claims, each with the measured value and the outcome."""
    if not checked:
        return []
    rows = [
        [
            done.claim.says,
            done.claim.published,
            done.server,
            interval(done.value, done.low, done.high),
            str(done.n),
            done.outcome,
        ]
        for done in checked
    ]
    return [
        Heading(3, "Published claims"),
        Table(
            ["claim", "published", "server", "measured here (95 % interval)", "blocks", "outcome"],
            rows,
            [MOODS.get(c.outcome, "") for c in checked],
        ),
    ]


def metric_tables(found: MetricAnalysis, analysis: AnalysisSpec) -> list[Part]:
    """One metric: medians, comparisons with the baseline, A/A control, and all pairs folded away."""
    metric = METRICS[found.metric]
    parts: list[Part] = [Heading(3, metric.heading + (f", {metric.unit}" if metric.unit else ""))]
    head = [
        *map(factor_words, found.cells[0].levels if found.cells else []),
        "",
        "median",
        "95 % interval",
        "starts",
        "coefficient of variation",
        "outliers",
    ]
    parts.append(Table(head, [_cell_row(cell) for cell in found.cells]))
    comparisons = [comparison for stratum in found.strata for comparison in stratum.comparisons]
    if comparisons:
        parts.append(_comparison_table(comparisons, analysis))
        parts.append(_aa_control(found))
        parts.append(Folded("Omnibus tests, all pairs", _pairs(found)))
    return parts


def _cell_row(cell: Cell) -> list[str]:
    outliers = ", ".join(f"block {block}" for block in cell.outliers)
    again = "again" if cell.copy else ""
    return [
        *cell.levels.values(),
        again,
        number(cell.median),
        f"{number(cell.low)} – {number(cell.high)}",
        str(len(cell.values)),
        f"{cell.variation:.1%}",
        outliers,
    ]


def _comparison_table(comparisons: Sequence[LevelComparison], analysis: AnalysisSpec) -> Table:
    head = [
        *map(factor_words, comparisons[0].stratum),
        factor_words(analysis.compare),
        f"ratio to {analysis.baseline}",
        "95 % interval",
        "p (Holm)",
        "p Dunn",
        "p Dunnett",
        "outcome",
    ]
    rows = []
    for each in comparisons:
        effect = each.effect
        outcome = {
            "equivalent": f"equivalent within {analysis.margin:.0%} (p {effect.p_equivalence:.3f})",
            "inconclusive": f"inconclusive, minimum detectable effect {minimum_effect(effect.mde)}",
        }.get(each.outcome, each.outcome)
        rows.append(
            [
                *each.stratum.values(),
                each.level,
                f"{effect.ratio:.3f}",
                f"{effect.low:.3f} – {effect.high:.3f}",
                p_value(each.p),
                p_value(each.dunn),
                p_value(each.dunnett),
                outcome,
            ]
        )
    return Table(head, rows, [MOODS.get(each.outcome, "") for each in comparisons])


def _aa_control(finding: MetricAnalysis) -> Text:
    significant, compared = finding.aa_control
    if not compared:
        return Text("too few starts of the repeated baseline.", "A/A control:")
    return Text(
        f"{significant} of {compared} comparisons of the baseline with itself are significant (5% expected by chance).",
        "A/A control:",
    )


def _pairs(finding: MetricAnalysis) -> list[Part]:
    parts: list[Part] = []
    for stratum in finding.strata:
        levels = ", ".join(itertools.starmap(level_words, stratum.levels.items()))
        tests = [*stratum.omnibus, *([stratum.variances] if stratum.variances else [])]
        results = "; ".join(f"{test.name}: statistic {test.statistic:.3g}, p {p_value(test.p)}" for test in tests)
        parts.append(Text(results or "too few starts", levels))
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
