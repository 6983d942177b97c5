"""Small results that stay in the repository: a folder each experiment, which can be reported anew, and their index."""

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
from zonda_lab.report.conclusion import outcome
from zonda_lab.report.document import Document, Figure, Heading, Part, Text
from zonda_lab.report.result_tables import here
from zonda_lab.results import Results, WindowRecord

DIGITS, POINTS = 6, 100  # of a metric; of a curve of arrivals
INDEX = """# Committed results

One folder an experiment, as `zonda-lab keep` made it from a run: the records of all windows but the trials of a
search, the manifest of the machine, and `report.md` with the deciding plot. Telemetry and histograms are left out.

```sh
zonda-lab report lab/records/e01-response-rate     # the whole page with all plots, from the records alone
make lab-records                                   # measure E1 to E20 anew on a quiet machine, and write all of this
```

The second is `zonda-lab run --quick --set timing.blocks=5 --out RESULTS E1-E20` and `zonda-lab keep RESULTS
lab/records`. A run that was broken off goes on with `--resume RESULTS`, which the target does by itself. Experiments
without a valid window are not kept, and are named.
"""
HEAD = "| experiment | published | here | what it shows |\n| --- | --- | --- | --- |\n"


def keep(results: Results, target: Path, disturbed: bool = False) -> tuple[list[Path], list[str]]:
    """Writes a folder for each experiment below `target` and the index; returns the folders and what was not kept."""
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
    """The table of all folders below `target`."""
    rows = [_row(folder, disturbed) for folder in sorted(target.glob("e[0-9][0-9]-*")) if folder.is_dir()]
    return f"{INDEX}\n{HEAD}{''.join(rows)}"


def _row(folder: Path, disturbed: bool) -> str:
    try:
        chapter = chapters(Results(folder), disturbed)[0]
    except (IndexError, KeyError, json.JSONDecodeError):
        raise LabError(
            f"{folder} holds no results of one experiment", "remove it, or keep the experiment again"
        ) from None
    published = [f"{row.what}: {row.figure}" for row in chapter.published] or ["–"]
    measured = [here(row, chapter.records) for row in chapter.published if row.metric]
    measured += [
        f"{done.claim.says}{f' ({done.server})' if done.server else ''}: {outcome(done)}" for done in chapter.claims
    ]
    cells = [
        f"[{chapter.id} {chapter.described['title']}]({folder.name}/report.md)",
        "<br>".join(published),
        "<br>".join(measured) or "see the report",
        chapter.brief,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _write_report(results: Results, disturbed: bool) -> None:
    """`report.md` with the first plot only: the page with all of them is one command away."""
    built = document(results, disturbed)
    first = next((part for part in built.parts if isinstance(part, Figure)), None)
    (results.folder / "figures").mkdir()
    if first:
        (results.folder / "figures" / f"{first.name}.svg").write_text(first.svg)
    parts: list[Part] = [part for part in built.parts if not isinstance(part, Figure) or part is first]
    title = next(part.text for part in parts if isinstance(part, Heading) and part.level == 2)
    note = Text(f"`zonda-lab report lab/records/{results.folder.name}` makes the page with all plots.", "All plots.")
    (results.folder / "report.md").write_text(markdown.render(Document(title, [note, *parts])))


def _small(record: WindowRecord) -> dict[str, Any]:
    """Without the files beside it, and no more digits than mean anything."""
    table = dataclasses.asdict(record)
    table["files"] = {}
    table["metrics"] = {name: float(f"{value:.{DIGITS}g}") for name, value in record.metrics.items()}
    if points := record.detail.get("arrivals"):
        step = -(-(len(points) - 1) // POINTS) or 1  # so that what is kept can be kept again
        table["detail"]["arrivals"] = [*points[:-1:step], points[-1]]
    table["reasons"] = [re.sub(r"\n.*", "", reason, flags=re.DOTALL) for reason in record.reasons]
    return table


def _options(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are the same on every machine: no paths."""
    return {name: value for name, value in manifest["options"].items() if name in ("quick", "set", "seed")}
