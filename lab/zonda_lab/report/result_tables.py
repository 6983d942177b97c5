"""Published figures, claims and findings as tables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from zonda_lab.analysis import Cell, ClaimCheck, LevelComparison, MetricAnalysis, beside
from zonda_lab.experiment import AnalysisSpec, Published
from zonda_lab.metrics import METRICS, factor_words, level_words
from zonda_lab.report.document import Folded, Heading, Part, Table, Text
from zonda_lab.report.number_format import interval, least, number, p_value
from zonda_lab.results import WindowRecord

MOODS = {
    "better": "good",
    "worse": "bad",
    "undetected": "dim",
    "too few": "dim",
    "confirmed": "good",
    "not confirmed": "bad",
}


def published(rows: Sequence[Published], records: Sequence[WindowRecord]) -> list[Part]:
    """What was published, and beside it what came out here where it is a metric of ours."""
    if not rows:
        return []
    return [Table(["published", "figure", "here: median (95 %)"], [[r.what, r.figure, here(r, records)] for r in rows])]


def here(row: Published, records: Sequence[WindowRecord]) -> str:
    """What came out here beside a published figure, server by server."""
    if not row.metric:
        return "see below"
    unit, cells = f" {METRICS[row.metric].unit}".rstrip(), beside(records, row)
    told = [f"{cell.label} {interval(cell.median, cell.low, cell.high)}{unit}, n {len(cell.values)}" for cell in cells]
    return "; ".join(told) or "not measured"


def claims(checked: Sequence[ClaimCheck]) -> list[Part]:
    """Published statements, each with the value here and whether it agrees."""
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
            ["claim", "published", "server", "here (95 %)", "blocks", "outcome"],
            rows,
            [MOODS.get(c.outcome, "") for c in checked],
        ),
    ]


def finding(found: MetricAnalysis, analysis: AnalysisSpec) -> list[Part]:
    """One metric: its cells, the comparisons with the baseline, the control, and all pairs for who opens them."""
    metric = METRICS[found.metric]
    parts: list[Part] = [Heading(3, metric.heading + (f", {metric.unit}" if metric.unit else ""))]
    head = [
        *map(factor_words, found.cells[0].levels if found.cells else []),
        "",
        "median",
        "95 % interval",
        "starts",
        "variation",
        "outliers",
    ]
    parts.append(Table(head, [_cell_row(cell) for cell in found.cells]))
    comparisons = [comparison for stratum in found.strata for comparison in stratum.comparisons]
    if comparisons:
        parts.append(_comparison_table(comparisons, analysis))
        parts.append(_control(found))
        parts.append(Folded("Omnibus tests, all pairs", _pairs(found)))
    return parts


def _cell_row(cell: Cell) -> list[str]:
    odd = ", ".join(f"block {block}" for block in cell.outliers)
    again = "again" if cell.copy else ""
    return [
        *cell.levels.values(),
        again,
        number(cell.median),
        f"{number(cell.low)} – {number(cell.high)}",
        str(len(cell.values)),
        f"{cell.variation:.1%}",
        odd,
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
        "verdict",
    ]
    rows = []
    for each in comparisons:
        effect = each.effect
        told = {
            "equal": f"equal within {analysis.margin:.0%} (p {effect.p_equivalence:.3f})",
            "undetected": f"undetected: less than {least(effect.detectable)} would not have been seen",
            "too few": "too few starts to say",
        }.get(each.verdict, each.verdict)
        rows.append(
            [
                *each.stratum.values(),
                each.level,
                f"{effect.ratio:.3f}",
                f"{effect.low:.3f} – {effect.high:.3f}",
                p_value(each.p),
                p_value(each.dunn),
                p_value(each.dunnett),
                told,
            ]
        )
    return Table(head, rows, [MOODS.get(each.verdict, "") for each in comparisons])


def _control(finding: MetricAnalysis) -> Text:
    alarms, tried = finding.alarms
    if not tried:
        return Text("too few starts of the second baseline.", "A/A control:")
    return Text(
        f"{alarms} of {tried} comparisons of the baseline with itself looked different; one in twenty may.",
        "A/A control:",
    )


def _pairs(finding: MetricAnalysis) -> list[Part]:
    parts: list[Part] = []
    for stratum in finding.strata:
        where = ", ".join(itertools.starmap(level_words, stratum.levels.items()))
        tests = [*stratum.omnibus, *([stratum.variances] if stratum.variances else [])]
        told = "; ".join(f"{test.name}: statistic {test.statistic:.3g}, p {p_value(test.p)}" for test in tests)
        parts.append(Text(told or "too few starts", where))
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
