"""Results small enough to commit: one folder per experiment, and an index."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.report import markdown
from zonda_lab.report.build import chapters, document
from zonda_lab.report.conclusion import claim_outcome
from zonda_lab.report.document import Document, Figure, Heading, Part, Text
from zonda_lab.report.result_tables import measured_here
from zonda_lab.results import Results, WindowRecord

DIGITS, POINTS = 6, 100  # significant digits of a metric; points of an arrival curve
INDEX = """# Committed results

One folder per experiment, written by `zonda-lab keep`: the window records (without the trials of a peak search), the
manifest, and `report.md` with the main plot. Telemetry and histograms are not stored.

```sh
zonda-lab report lab/records/e01-response-rate     # the full page with all plots, from the records
make lab-records                                   # measure E1 to E20 again on an idle machine and replace this folder
```

`make lab-records` runs `zonda-lab run --quick --set timing.blocks=5 --out RESULTS E1-E20` and `zonda-lab keep RESULTS
lab/records`; it resumes an interrupted run. Experiments without a valid window are not stored; the command lists them.
"""
HEAD = "| experiment | published | measured here | result |\n| --- | --- | --- | --- |\n"


def keep(results: Results, target: Path, disturbed: bool = False) -> tuple[list[Path], list[str]]:
    """Writes a folder per experiment and the index; returns the folders and the experiments without a valid window."""
    manifest, kept, left = results.manifest(), list[Path](), list[str]()
    for id_, described in manifest["experiments"].items():
        records = [record for record in results.records() if record.experiment == id_]
        if not any(record.counts or (disturbed and record.disturbed) for record in records):
            left.append(id_)
            continue
        folder = target / f"e{int(id_[1:]):02}-{described['name']}"
        shutil.rmtree(folder, ignore_errors=True)
        small = Results(folder)
        small.create({**manifest, "options": _options(manifest), "experiments": {id_: described}})
        small.lines.write_text("".join(f"{json.dumps(_small(r))}\n" for r in records if not r.detail.get("trial")))
        _write_report(small, disturbed)
        kept.append(folder)
    (target / "README.md").write_text(index(target, disturbed))
    return kept, left


def index(target: Path, disturbed: bool = False) -> str:
    """The index of all folders in `target`."""
    rows = [_row(folder, disturbed) for folder in sorted(target.glob("e[0-9][0-9]-*")) if folder.is_dir()]
    return f"{INDEX}\n{HEAD}{''.join(rows)}"


def _row(folder: Path, disturbed: bool) -> str:
    try:
        chapter = chapters(Results(folder), disturbed)[0]
    except (IndexError, KeyError, json.JSONDecodeError):
        raise LabError(
            f"{folder} holds no results of one experiment", "remove it, or run `zonda-lab keep` again"
        ) from None
    published = [f"{row.what}: {row.figure}" for row in chapter.published] or ["–"]
    measured = [measured_here(row, chapter.records) for row in chapter.published if row.metric]
    measured += [
        f"{done.claim.says}{f' ({done.server})' if done.server else ''}: {claim_outcome(done)}"
        for done in chapter.claims
    ]
    cells = [
        f"[{chapter.id} {chapter.described['title']}]({folder.name}/report.md)",
        "<br>".join(published),
        "<br>".join(measured) or "see the report",
        chapter.summary_text,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _write_report(results: Results, disturbed: bool) -> None:
    """`report.md` with the first plot only."""
    built = document(results, disturbed)
    first = next((part for part in built.parts if isinstance(part, Figure)), None)
    (results.folder / "figures").mkdir()
    if first:
        (results.folder / "figures" / f"{first.name}.svg").write_text(first.svg)
    parts: list[Part] = [part for part in built.parts if not isinstance(part, Figure) or part is first]
    title = next(part.text for part in parts if isinstance(part, Heading) and part.level == 2)
    note = Text(f"`zonda-lab report lab/records/{results.folder.name}` builds the page with all plots.", "All plots.")
    (results.folder / "report.md").write_text(markdown.render(Document(title, [note, *parts])))


def _small(record: WindowRecord) -> dict[str, Any]:
    """The record with rounded metrics and without references to telemetry and histogram files."""
    table = dataclasses.asdict(record)
    table["files"] = {}
    table["metrics"] = {name: float(f"{value:.{DIGITS}g}") for name, value in record.metrics.items()}
    if points := record.detail.get("arrivals"):
        step = -(-(len(points) - 1) // POINTS) or 1  # so that storing it twice does not thin it twice
        table["detail"]["arrivals"] = [*points[:-1:step], points[-1]]
    table["reasons"] = [re.sub(r"\n.*", "", reason, flags=re.DOTALL) for reason in record.reasons]
    return table


def _options(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The options without paths."""
    return {name: value for name, value in manifest["options"].items() if name in ("quick", "set", "seed")}
