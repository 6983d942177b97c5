"""Results small enough to commit: one folder per experiment, and an index."""

import dataclasses
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import planned_keys
from zonda_lab.experiments.catalogue import described_today
from zonda_lab.report import markdown
from zonda_lab.report.build import Chapter, chapters, document
from zonda_lab.report.document import Document, Figure, Heading, Part, Text
from zonda_lab.report.reading import INTERVALS
from zonda_lab.report.result_tables import claim_value, measured_here, value_text
from zonda_lab.report.validity_tables import false_alarms
from zonda_lab.results.folder import FORMAT, Results
from zonda_lab.results.window_record import WindowRecord

DIGITS, POINTS = 6, 100  # significant digits of a metric; points of an arrival curve
MOST, LONGEST = 4, 140  # values and characters in a cell of the index
SHA = 12  # characters of a commit in the index
UNCOMMITTED = ("-dirty", "unknown")
INDEX = """# Committed results

One folder per experiment, written by `zonda-lab keep`: the window records with all trials of a peak search, the
manifest, and `report.md` with the main plot. Telemetry and histograms are not stored.

```sh
zonda-lab report lab/records/e01-response-rate     # the full page with all plots, from the records
zonda-lab report lab/records                       # all reports and this index again, with today's claims and rules
zonda-lab plan E1-E20 --from lab/records --hours 6 # blocks that the effects need, and their duration
make lab-records                                   # measure again from a clean commit, in seven hours; resumes
zonda-lab history lab/records                      # how the values changed from commit to commit
```

`keep` accepts only finished runs of a clean commit that are not `--quick`. Experiments without a valid window are not
stored.
"""
HEAD = "| | question | published | here | verdict |\n| --- | --- | --- | --- | --- |\n"


def keep(results: Results, target: Path) -> tuple[list[Path], list[str]]:
    """Writes a folder per experiment and the index; returns the folders and the experiments without a valid window.

    All folders are written before the first replaces an older one.
    """
    manifest, windows = results.manifest(), results.records()
    _require_keepable(results, manifest)
    valid = {record.experiment for record in windows if record.counts}
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".keep-", dir=target) as scratch:
        written = []
        for id_, described in manifest["experiments"].items():
            if id_ in valid:
                small = Results(Path(scratch, "new", folder_name(id_, described["name"])))
                small.create({**manifest, "options": _options(manifest), "experiments": {id_: described}})
                lines = (json.dumps(_small(record)) for record in windows if record.experiment == id_)
                small.lines.write_text("".join(f"{line}\n" for line in lines))
                _write_report(small)
                written.append(small.folder)
        kept = [_replace(target / folder.name, folder, Path(scratch, f"old-{folder.name}")) for folder in written]
    (target / "README.md").write_text(index(target))
    return kept, [id_ for id_ in manifest["experiments"] if id_ not in valid]


def _replace(folder: Path, new: Path, old: Path) -> Path:
    """Puts `new` in place of `folder`, which moves to `old`, and back if that fails."""
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    return folder


def is_committed(folder: Path) -> bool:
    """Whether this is a folder of committed results, as `keep` writes it."""
    return not (folder / "manifest.json").exists() and any(folder.glob("*/manifest.json"))


def rebuild(target: Path) -> Path:
    """Writes all reports and the index again, with today's texts, claims and analysis; returns the index."""
    for path in sorted(target.glob("*/manifest.json")):
        results = Results(path.parent)
        manifest = results.manifest()
        entries = {id_: described_today(entry) for id_, entry in manifest["experiments"].items()}
        results.write("manifest.json", {**manifest, "experiments": entries})
        _write_report(results)
    (target / "README.md").write_text(index(target))
    return target / "README.md"


def folder_name(id_: str, name: str) -> str:
    """`e01-response-rate`; an experiment outside the catalogue may have any id, and no name."""
    number = re.fullmatch(r"[Ee](\d+)", id_)
    first = f"e{int(number[1]):02}" if number else id_
    return re.sub(r"[^a-z0-9]+", "-", f"{first} {name}".lower()).strip("-") or "experiment"


def index(target: Path) -> str:
    """The index of all folders in `target`."""
    folders = sorted(path.parent for path in target.glob("*/manifest.json"))
    manifests = {folder: Results(folder).manifest() for folder in folders}
    read = {folder: _chapter(folder) for folder in folders}
    rows = [_row(folder, manifests[folder], chapter) for folder, chapter in read.items()]
    pairs = [pair for chapter in read.values() for pair in chapter.aa_pairs]
    alarms = [f"**{part.strong}** {part.text}\n" for part in false_alarms(pairs)]
    texts = [_measured(manifests), *alarms, f"**Intervals.** {INTERVALS}\n", f"{HEAD}{''.join(rows)}"]
    return "\n".join([INDEX, *texts])


def _require_keepable(results: Results, manifest: Mapping[str, Any]) -> None:
    """A committed record states the one commit that was measured, and is complete and large enough to be quoted."""
    folder, source = results.folder, manifest.get("source", "unknown")
    if source.endswith(UNCOMMITTED):
        help_text = "commit, check the commit out in its own worktree (git worktree add), and run from there"
        raise LabError(f"{folder} was not measured from a commit (source: {source})", help_text)
    if manifest["options"].get("quick"):
        raise LabError(f"{folder} is a quick run", "run it without --quick; `zonda-lab plan` says how long it takes")
    planned = {key for described in manifest["experiments"].values() for key in planned_keys(described)}
    if missing := planned - results.finished():
        what = f"{folder} is not finished: {len(missing)} of {len(planned)} starts are missing"
        raise LabError(what, f"finish it with `zonda-lab run --resume {folder}`")


def _measured(manifests: Mapping[Path, Mapping[str, Any]]) -> str:
    """Which commit was measured; one for all, or which experiments at which commit."""
    commits: dict[str, list[str]] = {}
    for manifest in manifests.values():
        commit, dash, state = manifest.get("source", "unknown").partition("-")
        commits.setdefault(f"{commit[:SHA]}{dash}{state}", []).extend(manifest["experiments"])
    old = [id_ for manifest in manifests.values() if _is_old(manifest) for id_ in manifest["experiments"]]
    one = len(commits) == 1
    lines = [f"`{commit}`" + ("" if one else f" ({', '.join(ids)})") for commit, ids in commits.items()]
    texts = [f"**Measured commit{'' if one else 's'}.** {'; '.join(lines)}.\n"] if lines else []
    if old:
        texts.append(
            f"\n**These records predate the format (†).** {', '.join(old)}: quick windows, an earlier peak search and "
            "no echo server in the same rig. Their values cannot be quoted; they will be recorded again.\n"
        )
    return "".join(texts)


def _chapter(folder: Path) -> Chapter:
    try:
        return chapters(Results(folder))[0]
    except (IndexError, KeyError, json.JSONDecodeError):
        help_text = "remove it, or run `zonda-lab keep` again"
        raise LabError(f"{folder} holds no results of one experiment", help_text) from None


def _row(folder: Path, manifest: Mapping[str, Any], chapter: Chapter) -> str:
    old = " †" if _is_old(manifest) else ""
    cells = [
        f"[{chapter.id}]({folder.name}/report.md){old}",
        chapter.described["question"] or chapter.described["title"],
        _short(_published(chapter)),
        _short(_here(chapter)),
        chapter.verdict,
    ]
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |\n"


def _is_old(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest.get("format", 1) < FORMAT)


def _published(chapter: Chapter) -> str:
    """The published figure that `_here` stands beside."""
    if chapter.claims:
        return f"{chapter.claims[0].claim.says}: {chapter.claims[0].claim.published}"
    row = next((row for row in chapter.published if row.metric), None) or next(iter(chapter.published), None)
    return f"{row.what}: {row.figure}" if row else "–"


def _here(chapter: Chapter) -> str:
    """The value of the first claim, or of the published figure, or of the primary metric; per server."""
    if chapter.claims:
        says = chapter.claims[0].claim.says
        first = [done for done in chapter.claims if done.claim.says == says]
        return "; ".join(" ".join(filter(None, (done.condition, claim_value(done)))) for done in first) or "–"
    row = next((row for row in chapter.published if row.metric), None)
    if row:
        return measured_here(row, chapter.records, intervals=False)
    if chapter.primary is None:
        return "–"
    cells = [cell for cell in chapter.primary.cells if not cell.copy][:MOST]
    return "; ".join(f"{cell.label} {value_text(cell, interval=False)}" for cell in cells)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " …"


def _write_report(results: Results) -> None:
    """`report.md` with the first plot only."""
    built = document(results, opened=False)
    figures = [part for part in built.parts if isinstance(part, Figure)]
    first = next(iter(figures), None)
    shutil.rmtree(results.folder / "figures", ignore_errors=True)
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
    return {name: value for name, value in manifest["options"].items() if name in ("quick", "set", "seed", "blocks")}
