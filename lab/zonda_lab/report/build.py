"""Results into a document, and the document into files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zonda_lab.analysis import Cell, Checked, Comparison, Finding, check, findings
from zonda_lab.experiment import Analysis, Claim
from zonda_lab.metrics import METRICS
from zonda_lab.record import Record, Results
from zonda_lab.report import html, markdown
from zonda_lab.report.document import Document, Figure, Folded, Heading, Part, Table, Text
from zonda_lab.report.plots import PLOTS, Source
from zonda_lab.schema import parse

MOODS = {
    "better": "good",
    "worse": "bad",
    "undetected": "dim",
    "too few": "dim",
    "confirmed": "good",
    "not confirmed": "bad",
}


def write(folder: Path) -> Path:
    """Writes report.html, report.md and figures/*.svg into the folder of the results; returns the page."""
    results = Results(folder)
    built = document(results)
    page = folder / "report.html"
    page.write_text(html.render(built))
    (folder / "report.md").write_text(markdown.render(built))
    (folder / "figures").mkdir(exist_ok=True)
    for figure in (part for part in built.parts if isinstance(part, Figure)):
        (folder / "figures" / f"{figure.name}.svg").write_text(figure.svg)
    return page


def document(results: Results) -> Document:
    """The whole report, from the records alone."""
    manifest, records = results.manifest(), results.records()
    parts: list[Part] = [*_machine(manifest), *_overview(manifest, records)]
    for id_, described in manifest["experiments"].items():
        mine = [record for record in records if record.experiment == id_]
        parts += _experiment(id_, described, mine, results.folder)
    return Document("DNS measurements", parts)


def _machine(manifest: dict[str, Any]) -> list[Part]:
    machine, generator = manifest["machine"], manifest["generator"]
    servers = [
        [label, server["kind"], server["version"], server["sha256"][:12]]
        for label, server in manifest["servers"].items()
    ]
    virtual = "virtual, " if machine["hypervisor"] else ""
    parts: list[Part] = [
        Text(
            f"{machine['cpu']}, {machine['cpus']} CPUs, {virtual}{machine['memory_mb'] // 1024} GB, "
            f"Linux {machine['kernel']}, {machine['system']}. "
            f"Load by {generator['name']} {generator['version']}. Begun {manifest['began']}.",
            "Machine.",
        ),
        Table(["server", "kind", "version", "SHA-256"], servers),
    ]
    if limits := manifest.get("limits"):
        echo = f"A UDP echo on one core answers {number(limits['echo_qps'])} queries a second"
        parts.append(
            Text(f"{echo}, for {number(limits['echo_cpu_us'])} µs each: no server's peak can be higher.", "Limit.")
        )
    if manifest["absent"]:
        parts.append(Text("; ".join(why.splitlines()[0] for why in manifest["absent"].values()) + ".", "Not measured:"))
    kernel = [[key, value] for key, value in machine["sysctl"].items() if value]
    return [*parts, Folded("Kernel settings", [Table(["setting", "value"], kernel)])]


def _overview(manifest: dict[str, Any], records: Sequence[Record]) -> list[Part]:
    rows = []
    for id_, described in manifest["experiments"].items():
        mine = [record for record in records if record.experiment == id_]
        claims = [check(mine, claim) for claim in _claims(described)]
        agreed = sum(done.outcome != "not confirmed" and done.value is not None for done in claims)
        valid = sum(record.counts for record in mine)
        rows.append(
            [id_, described["title"], f"{valid} of {len(mine)}", f"{agreed} of {len(claims)}" if claims else "–"]
        )
    return [Table(["", "experiment", "valid windows", "published claims that agree"], rows)]


def _experiment(id_: str, described: dict[str, Any], records: list[Record], folder: Path) -> list[Part]:
    analysis = parse(Analysis, _kebab(described["analysis"]), id_)
    parts: list[Part] = [Heading(2, f"{id_} {described['title']}", id_.lower())]
    parts += [
        Text(described[key], f"{word}.")
        for key, word in (
            ("question", "Question"),
            ("why", "Why"),
            ("source", "Published by"),
            ("expect", "Expected here"),
        )
        if described[key]
    ]
    if described["published"]:
        parts.append(Table(["published", "figure"], [[row["what"], row["figure"]] for row in described["published"]]))
    found = findings(records, analysis)
    parts += _claim_table([check(records, claim) for claim in _claims(described)])
    source = Source(id_, records, analysis, folder)
    parts += [figure for name in analysis.plots for figure in PLOTS[name](source)]
    for finding in found:
        parts += _finding(finding, analysis)
    return [*parts, *_predictions(records), *_validity(records)]


def _claim_table(claims: Sequence[Checked]) -> list[Part]:
    if not claims:
        return []
    rows = [
        [done.claim.says, done.claim.published, _interval(done.value, done.low, done.high), done.outcome]
        for done in claims
    ]
    return [
        Heading(3, "Published claims"),
        Table(["claim", "published", "here (95 %)", "outcome"], rows, [MOODS.get(c.outcome, "") for c in claims]),
    ]


def _finding(finding: Finding, analysis: Analysis) -> list[Part]:
    metric = METRICS[finding.metric]
    parts: list[Part] = [Heading(3, metric.heading + (f", {metric.unit}" if metric.unit else ""))]
    head = [
        *(finding.cells[0].levels if finding.cells else []),
        "",
        "median",
        "95 % interval",
        "starts",
        "variation",
        "outliers",
    ]
    parts.append(Table(head, [_cell_row(cell) for cell in finding.cells]))
    comparisons = [comparison for stratum in finding.strata for comparison in stratum.comparisons]
    if comparisons:
        parts.append(_comparison_table(comparisons, analysis))
        parts.append(_control(finding))
        parts.append(Folded("Omnibus tests, all pairs", _pairs(finding)))
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


def _comparison_table(comparisons: Sequence[Comparison], analysis: Analysis) -> Table:
    strata = list(comparisons[0].stratum)
    head = [
        *strata,
        analysis.compare,
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
            "undetected": f"undetected: less than {effect.detectable:.1%} would not have been seen",
            "too few": "too few starts to say",
        }.get(each.verdict, each.verdict)
        rows.append(
            [
                *each.stratum.values(),
                each.level,
                f"{effect.ratio:.3f}",
                f"{effect.low:.3f} – {effect.high:.3f}",
                _p(each.p),
                _p(each.dunn),
                _p(each.dunnett),
                told,
            ]
        )
    return Table(head, rows, [MOODS.get(each.verdict, "") for each in comparisons])


def _control(finding: Finding) -> Text:
    alarms, tried = finding.alarms
    if not tried:
        return Text("too few starts of the second baseline.", "A/A control:")
    return Text(
        f"{alarms} of {tried} comparisons of the baseline with itself looked different; one in twenty may.",
        "A/A control:",
    )


def _pairs(finding: Finding) -> list[Part]:
    parts: list[Part] = []
    for stratum in finding.strata:
        where = ", ".join(stratum.levels.values())
        tests = [*stratum.omnibus, *([stratum.variances] if stratum.variances else [])]
        told = "; ".join(f"{test.name}: statistic {test.statistic:.3g}, p {_p(test.p)}" for test in tests)
        parts.append(Text(told or "too few starts", where))
        rows = [
            [
                f"{one.b} / {one.a}",
                _p(one.p),
                f"{one.low:.3f} – {one.high:.3f}",
                _p(other.p),
                f"{other.low:.3f} – {other.high:.3f}",
            ]
            for one, other in zip(stratum.tukey, stratum.games_howell, strict=True)
        ]
        if rows:
            parts.append(Table(["pair", "p Tukey", "interval", "p Games-Howell", "interval"], rows))
    return parts


def _predictions(records: Sequence[Record]) -> list[Part]:
    rows = []
    for record in records:
        for name, value in record.predictions.items():
            measured = record.metrics.get(name, record.metrics.get(f"{name}_open"))
            rows.append(
                [*record.levels.values(), name, number(value), number(measured) if measured is not None else ""]
            )
    if not rows:
        return []
    head = [*records[0].levels, "bound", "predicted", "measured"]
    return [
        Folded(
            "Predicted bounds beside what was measured", [Table(head, [row for row in rows if len(row) == len(head)])]
        )
    ]


def _validity(records: Sequence[Record]) -> list[Part]:
    reasons = Counter(reason.splitlines()[0] for record in records for reason in record.reasons)
    skipped = Counter(record.skipped.splitlines()[0] for record in records if record.skipped)
    notes = Counter(note for record in records for note in record.notes)
    parts: list[Part] = []
    for title, counted in (("Invalid because", reasons), ("Skipped because", skipped), ("Notes", notes)):
        if counted:
            parts.append(
                Folded(
                    f"{title} ({sum(counted.values())})",
                    [Table(["", "windows"], [[why, str(n)] for why, n in counted.most_common()])],
                )
            )
    first = Counter(record.saturated[0][1] for record in records if record.counts and record.saturated)
    if first:
        parts.append(
            Folded(
                "What saturated first", [Table(["", "windows"], [[what, str(n)] for what, n in first.most_common()])]
            )
        )
    return parts


def _claims(described: dict[str, Any]) -> list[Claim]:
    return [parse(Claim, _kebab(claim), "claims") for claim in described["claims"]]


def _kebab(table: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in table.items()}


def _interval(value: float | None, low: float, high: float) -> str:
    return "" if value is None else f"{number(value)} ({number(low)} – {number(high)})"


def _p(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float) -> str:
    """Three significant digits, thousands apart."""
    if value == 0 or not math.isfinite(value):
        return "∞" if math.isinf(value) else "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
