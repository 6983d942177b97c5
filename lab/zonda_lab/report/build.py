"""Results into a document, and the document into files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zonda_lab.analysis import ClaimCheck, checks, findings
from zonda_lab.experiment import AnalysisSpec, Claim, Published
from zonda_lab.metrics import factor_words
from zonda_lab.report import conclusion, html, markdown, validity_tables
from zonda_lab.report.document import Document, Figure, Folded, Heading, Part, Table, Text
from zonda_lab.report.number_format import number
from zonda_lab.report.plot_style import PlotData
from zonda_lab.report.plots import PLOTS
from zonda_lab.report.result_tables import claims, finding, published
from zonda_lab.results import Results, WindowRecord
from zonda_lab.schema import parse

READING = """Every figure is the median over fresh starts of the server, with its 95 % interval (BCa bootstrap; \
of few starts hardly more than their range, which of three holds the truth three times in four). Differences are \
judged by paired ratios, with Student's intervals below eight blocks. Treatments take turns in random order, the \
baseline twice in each block: “again” is that second baseline, and how often it differs from the first is the A/A \
control. Windows that broke a rule fixed beforehand are left out, and each experiment says which and why."""
DISTURBED = """Windows that other programs on the machine disturbed are counted as if they were valid. This shows that \
the experiments work; no figure on this page may be quoted."""


def write(folder: Path, disturbed: bool = False) -> Path:
    """Writes report.html, report.md and figures/*.svg into the folder of the results; returns the page.

    With `disturbed`, windows that are invalid only because the machine was not quiet are counted, and the page says so.
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


def document(results: Results, disturbed: bool = False) -> Document:
    """The whole report, from the records alone."""
    read = chapters(results, disturbed)
    parts: list[Part] = [Text(DISTURBED, "Not fit to be quoted.")] if disturbed else []
    parts += [*_machine(results.manifest()), Text(READING, "How to read this."), _overview(read)]
    for chapter in read:
        parts += chapter.parts(results.folder)
    return Document("DNS measurements", parts)


def chapters(results: Results, disturbed: bool = False) -> list[Chapter]:
    """The experiments of the results, in their order."""
    records = [
        dataclasses.replace(record, valid=True, latency_reasons=[]) if disturbed and record.disturbed else record
        for record in results.records()
    ]
    return [
        Chapter(id_, described, [record for record in records if record.experiment == id_])
        for id_, described in results.manifest()["experiments"].items()
    ]


class Chapter:
    """One experiment: what the manifest says of it and its records."""

    def __init__(self, id_: str, described: Mapping[str, Any], records: Sequence[WindowRecord]) -> None:
        self.id, self.described = id_, described
        self.records = sorted(records, key=lambda record: _place(record, described["levels"]))
        self.analysis = parse(AnalysisSpec, _keys(described["analysis"]), id_)
        self.published = [parse(Published, _keys(row), id_) for row in described["published"]]
        claimed = [parse(Claim, _keys(row), id_) for row in described["claims"]]
        self.claims: list[ClaimCheck] = [done for claim in claimed for done in checks(self.records, claim)]
        self.findings = findings(self.records, self.analysis)
        deciding = next((found for found in self.findings if found.metric == self.analysis.metric), None)
        self.shown = conclusion.shown(deciding, self.claims, self.analysis)
        self.brief = conclusion.deciding(deciding, self.analysis)
        if records and all(record.skipped for record in records):
            self.shown = self.brief = (
                f"Nothing: {'; '.join(dict.fromkeys(r.skipped.splitlines()[0] for r in records))}."
            )

    def parts(self, folder: Path) -> list[Part]:
        """Question and expectation, published beside measured, plots, tables, what may be believed, what is shown."""
        described = self.described
        told = (
            ("question", "Question"),
            ("why", "Why"),
            ("source", "Published by"),
            ("expect", "Expected here"),
        )
        parts: list[Part] = [Heading(2, f"{self.id} {described['title']}", self.id.lower())]
        parts += [Text(described[key], f"{word}.") for key, word in told if described[key]]
        parts += [Text(_size(described), "Size."), *validity_tables.counted(self.records)]
        parts += [*published(self.published, self.records), *claims(self.claims)]
        source = PlotData(self.id, self.records, self.analysis, folder)
        parts += [figure for name in self.analysis.plots for figure in PLOTS[name](source)]
        for found in self.findings:
            parts += finding(found, self.analysis)
        return [
            *parts,
            *validity_tables.predictions(self.records),
            *validity_tables.validity(self.records),
            Text(self.shown, "Shown here."),
        ]

    @property
    def summary(self) -> list[str]:
        """The experiment's row of the overview."""
        windows = [record for record in self.records if not record.skipped]
        skipped = len(self.records) - len(windows)
        valid = f"{sum(record.counts for record in windows)} of {len(windows)}"
        agreed = sum(done.outcome != "not confirmed" and done.value is not None for done in self.claims)
        of_claims = f"{agreed} of {len(self.claims)}" if self.claims else "–"
        return [
            self.id,
            self.described["title"],
            self.brief,
            valid + (f", {skipped} skipped" if skipped else ""),
            of_claims,
        ]


def _overview(read: Sequence[Chapter]) -> Table:
    return Table(
        ["", "experiment", "shown here", "valid windows", "published claims that agree"],
        [chapter.summary for chapter in read],
    )


def _machine(manifest: Mapping[str, Any]) -> list[Part]:
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
        Table(["server", "kind", "version", "SHA-256 of the program"], servers),
    ]
    if limits := manifest.get("limits"):
        echo = f"A UDP echo on one core answers {number(limits['echo_qps'])} queries a second"
        parts.append(
            Text(
                f"{echo} (closed loop, 200 in flight), for {number(limits['echo_cpu_us'])} µs each: "
                "about what sockets leave to a server. "
                "It is one window; an open loop that sends in larger bunches can go beyond it.",
                "Limit.",
            )
        )
    if manifest["absent"]:
        parts.append(Text("; ".join(why.splitlines()[0] for why in manifest["absent"].values()) + ".", "Not measured:"))
    kernel = [[key, value] for key, value in machine["sysctl"].items() if value]
    return [*parts, Folded("Kernel settings", [Table(["setting", "value"], kernel)])]


def _size(described: Mapping[str, Any]) -> str:
    """How often and how long it was measured, and what of the full form was left out."""
    timing, full = described["settings"]["timing"], described["timing"]
    varied = {name: [str(level) for level in levels] for name, levels in _full_levels(described).items()}
    left = {
        name: [level for level in levels if level not in described["levels"].get(name, levels)]
        for name, levels in varied.items()
    }
    told = [
        f"Blocks: {timing['blocks']}" + (f" (in full {full['blocks']})" if timing["blocks"] != full["blocks"] else "")
    ]
    if timing["seconds"] != full["seconds"]:
        told.append(f"windows of {timing['seconds']:g} s (in full {full['seconds']:g} s)")
    for key, unit in (("zones", "zones"), ("records", "records a zone")):
        here, whole = described["settings"]["zones"][key], described["zones"][key]
        if here != whole:
            told.append(f"{here:,} {unit} (in full {whole:,})")
    told += [f"left out of {factor_words(name)}: {', '.join(levels)}" for name, levels in left.items() if levels]
    return "; ".join(told) + "."


def _full_levels(described: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    return {name: list(levels) for name, levels in {**described["factors"], **described["within"]}.items()}


def _place(record: WindowRecord, levels: Mapping[str, Sequence[str]]) -> list[int]:
    """Where its levels stand in the experiment: tables and plots have their order, not that of chance."""
    known = ((levels.get(name, []), level) for name, level in record.levels.items())
    return [*(order.index(level) if level in order else len(order) for order, level in known), record.copy]


def _keys(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in table.items()}
