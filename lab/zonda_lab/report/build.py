"""Builds the report of a run as a document and writes it as HTML, Markdown and SVG."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zonda_lab.analysis.analysis import aa_pairs, analyse
from zonda_lab.analysis.claims import ClaimCheck, check_claim
from zonda_lab.experiments.definition import AnalysisSpec, Claim, Published
from zonda_lab.report import conclusion, html, markdown, validity_tables
from zonda_lab.report.document import Document, Figure, Heading, Part, Table, Text, slug
from zonda_lab.report.machine import machine, primaries_of
from zonda_lab.report.number_format import NONE
from zonda_lab.report.opening import COST, RATES, Ranking, opening, ranking
from zonda_lab.report.plot_style import PlotData
from zonda_lab.report.plots import PLOTS
from zonda_lab.report.reading import DISTURBED, INTERVALS, READING
from zonda_lab.report.result_tables import EchoReference, claims, metric_tables, published
from zonda_lab.report.size import measured_size, more_time, size
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord, selected
from zonda_lab.schema import parse_stored

INTRODUCTION = {"question": "Question", "why": "Why it matters", "source": "Published by", "expect": "Expected here"}


def write(folder: Path, disturbed: bool = False) -> Path:
    """Writes report.html, report.md and figures/*.svg into the results folder; returns the path of the page.

    With `disturbed`, windows that are invalid only because of other load on the machine count, and the page says so.
    """
    built = document(Results(folder), disturbed)
    page = folder / "report.html"
    page.write_text(html.render(built))
    (folder / "report.md").write_text(markdown.render(built))
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    for old in figures.glob("*.svg"):
        old.unlink()
    for figure in (part for part in built.parts if isinstance(part, Figure)):
        (figures / f"{figure.name}.svg").write_text(figure.svg)
    return page


def document(results: Results, disturbed: bool = False, opened: bool = True) -> Document:
    """The report, built from the records alone; it opens with a picture and three sentences if `opened`."""
    read = chapters(results, disturbed)
    manifest = results.manifest()
    parts: list[Part] = [Text(DISTURBED, "Do not quote.")] if disturbed else []
    if opened:
        parts += opening([record for chapter in read if chapter.can_open for record in chapter.records])
    of = ("of all experiments and metrics",) if len(read) > 1 else ("of all metrics of this experiment",)
    parts += [_overview(read), *validity_tables.false_alarms((chapter.aa_pairs for chapter in read), *of)]
    parts += [Text(READING, "How to read this."), Text(INTERVALS, "Intervals."), *_machine(manifest, read)]
    for chapter in read:
        parts += chapter.parts(results.folder)
    return Document("DNS measurements", parts)


def chapters(results: Results, disturbed: bool = False) -> "list[Chapter]":
    """One chapter per experiment of the run."""
    records = [
        dataclasses.replace(record, valid=True, latency_reasons=[]) if disturbed and record.disturbed else record
        for record in results.records()
    ]
    return [
        Chapter(id_, described, [record for record in records if record.experiment == id_])
        for id_, described in results.manifest()["experiments"].items()
    ]


class Chapter:
    """One experiment: its entry in the manifest and its records."""

    def __init__(self, id_: str, described: Mapping[str, Any], records: Sequence[WindowRecord]) -> None:
        self.id, self.described = id_, described
        self.records = sorted(records, key=lambda record: _level_order(record, described["levels"]))
        self.analysis = parse_stored(AnalysisSpec, described["analysis"], id_)
        self.published = [parse_stored(Published, row, id_) for row in described["published"]]
        claimed = [parse_stored(Claim, row, id_) for row in described["claims"]]
        self.metrics = analyse(self.records, self.analysis)
        self.aa_pairs = [pair for found in self.metrics for pair in found.aa_pairs]
        only_claimed = sorted({claim.metric for claim in claimed} - {found.metric for found in self.metrics})
        pairs = [*self.aa_pairs, *aa_pairs(self.records, only_claimed, self.analysis)]
        self.claims: list[ClaimCheck] = [done for claim in claimed for done in check_claim(self.records, claim, pairs)]
        self.primary = next((found for found in self.metrics if found.metric == self.analysis.metric), None)
        valid = sum(record.counts for record in records)
        self.conclusion = conclusion.conclusion(self.primary, self.claims, self.analysis, self._cost(), valid)
        self.summary_text = conclusion.primary_metric(self.primary, self.analysis, valid)
        self.verdict = conclusion.verdict(self.claims, self.primary)
        if records and all(record.skipped for record in records):
            reasons = dict.fromkeys(record.skipped.splitlines()[0] for record in records)
            self.conclusion = self.summary_text = f"Skipped: {'; '.join(reasons)}."

    def _cost(self) -> Ranking | None:
        """The servers by CPU time per answer, if the rig limited windows; of compared settings the baseline."""
        if not any(record.counts and record.rig_bound for record in self.records):
            return None
        compare, baseline = self.analysis.compare, self.analysis.baseline
        of_one = {compare: baseline} if baseline and compare != "server.name" else {}
        return ranking([r for r in selected(self.records, **of_one) if "server.name" in r.levels], COST)

    def parts(self, folder: Path) -> list[Part]:
        """Question, published and measured values, plots, tables, validity and result."""
        described, records = self.described, self.records
        parts: list[Part] = [Heading(2, f"{self.id} {described['title']}", slug(self.id.lower()))]
        parts += [Text(described[key], f"{word}.") for key, word in INTRODUCTION.items() if described[key]]
        parts += [Text(size(described, records, self.analysis, self.primary), "Size.")]
        parts += [*validity_tables.counted(records), *validity_tables.without_value(records, self.analysis.metric)]
        parts += validity_tables.rig_bound(records)
        parts += [*published(self.published, records), *claims(self.claims)]
        source, echo = PlotData(self.id, records, self.analysis, folder), EchoReference(records)
        parts += [figure for name in self.analysis.plots for figure in PLOTS[name](source)]
        for found in self.metrics:
            parts += metric_tables(found, self.analysis, echo)
        parts += [*validity_tables.predictions(records), *validity_tables.validity(records)]
        return [*parts, Text(self.conclusion, "Result.")]

    @property
    def can_open(self) -> bool:
        """Whether it compares servers over UDP, without an A/A alarm in a metric of the opening."""
        transport = self.described["settings"]["traffic"]["transport"]
        alarmed = any(pair.alarm and pair.metric in (*RATES, COST) for pair in self.aa_pairs)
        return self.analysis.compare == "server.name" and transport == "udp" and not alarmed

    @property
    def size_row(self) -> list[str]:
        """Blocks and windows, what was left out, and what more blocks would show."""
        more = more_time(self.records, self.analysis, self.primary)
        return [
            measured_size(self.described, self.records),
            self.described.get("left_out") or NONE,
            more or "not calculated",
        ]

    @property
    def summary(self) -> list[str]:
        """The experiment's row of the overview."""
        windows = [record for record in self.records if not record.skipped]
        skipped = len(self.records) - len(windows)
        valid = f"{sum(record.counts for record in windows)} of {len(windows)}"
        valid += f", {skipped} skipped" if skipped else ""
        return [self.id, self.described["title"], self.summary_text, valid, self.verdict]


def _overview(read: Sequence[Chapter]) -> Table:
    head = ["experiment", "title", "result", "valid windows", "published claims, in all their conditions"]
    return Table(head, [chapter.summary for chapter in read])


def _machine(manifest: Mapping[str, Any], read: Sequence[Chapter]) -> list[Part]:
    records = [record for chapter in read for record in chapter.records]
    ran = [chapter for chapter in read if not all(record.skipped for record in chapter.records)]
    primaries = sorted({label for chapter in ran for label in primaries_of(chapter.described)})
    return machine(manifest, records, primaries)


def _level_order(record: WindowRecord, levels: Mapping[str, Sequence[str]]) -> list[int]:
    """Sorts tables and plots by the level order of the experiment instead of the random run order."""
    known = ((levels.get(name, []), level) for name, level in record.levels.items())
    return [*(order.index(level) if level in order else len(order) for order, level in known), record.copy]
