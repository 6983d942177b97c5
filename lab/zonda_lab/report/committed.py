"""Results small enough to commit: one folder per experiment, and an index."""

import dataclasses
import datetime
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zonda_lab.analysis.analysis import measured_for
from zonda_lab.analysis.claims import ClaimCheck
from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import planned_keys
from zonda_lab.experiments.catalogue import described_today
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.report import markdown
from zonda_lab.report.build import Chapter, chapters, document
from zonda_lab.report.document import Document, Figure, Heading, Part, Text, slug
from zonda_lab.report.number_format import NONE
from zonda_lab.report.reading import INTERVALS
from zonda_lab.report.result_tables import claim_value, value_text
from zonda_lab.report.validity_tables import false_alarms
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.scratch import scratch_folder, stale_folders

DIGITS, POINTS = 6, 100  # significant digits of a metric; points of an arrival curve
MOST = 2  # values in a cell of the index
SHA = 12  # characters of a commit in the index
OLD = "old"  # where `keep` puts what it replaces, in its temporary folder
UNCOMMITTED = ("-dirty", "unknown")
INDEX = """# Committed results

One folder per experiment, written by `zonda-lab keep`: the window records with all trials of a peak search, the
manifest, and `report.md` with the main plot. Telemetry and histograms are not stored.
[Faults of the lab](../FAULTS.md) lists what was suspected of earlier results: proved or refuted, and how.

```sh
zonda-lab report lab/records/e01-response-rate     # the full page with all plots, from the records
zonda-lab report lab/records                       # all reports and this index again, with today's claims and rules
zonda-lab plan E1-E20 --from lab/records --hours 6 # blocks that the effects need, and their duration
make lab-records                                   # measure all again from a clean commit, in at most eight hours
zonda-lab history lab/records                      # how the values changed from commit to commit
```

`keep` accepts only finished runs of a clean commit that are not `--quick`. Experiments without a valid window are not
stored.
"""
HEAD = """| experiment | question | published | here (95 % interval) | outcomes of all conditions of the claims |
| --- | --- | --- | --- | --- |
"""
MORE = """## What was left out, and what more time would show

Blocks are repetitions of every treatment. The last column says whether they detect, with 80 % power, the effect that
the experiment was planned for, or how many blocks would. Where only bounds, shares of queries or nothing is compared,
this cannot be calculated.

| experiment | measured | left out | more time |
| --- | --- | --- | --- |
"""


def keep(results: Results, target: Path) -> tuple[list[Path], list[str]]:
    """Writes a folder per experiment and the index; returns the folders and the experiments without a valid window.

    All folders are written before the first replaces an older one.
    """
    manifest, windows = results.manifest(), results.records()
    _require_keepable(results, manifest)
    valid = {record.experiment for record in windows if record.counts}
    target.mkdir(parents=True, exist_ok=True)
    _restore(target)
    with scratch_folder(target) as scratch:
        written = []
        for id_, described in manifest["experiments"].items():
            if id_ in valid:
                small = Results(scratch / "new" / folder_name(id_, described["name"]))
                small.create({**manifest, "options": _options(manifest), "experiments": {id_: described}})
                lines = (json.dumps(_small(record)) for record in windows if record.experiment == id_)
                small.lines.write_text("".join(f"{line}\n" for line in lines))
                _write_report(small)
                written.append(small.folder)
        kept = [_replace(target / folder.name, folder, scratch / OLD / folder.name) for folder in written]
    (target / "README.md").write_text(index(target))
    return kept, [id_ for id_ in manifest["experiments"] if id_ not in valid]


def _replace(folder: Path, new: Path, old: Path) -> Path:
    """Puts `new` in place of `folder`, which moves to `old`, and back if that fails or is interrupted."""
    old.parent.mkdir(exist_ok=True)
    try:
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except BaseException:  # Ctrl-C, too: `old` is removed with the temporary folder
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    return folder


def _restore(target: Path) -> None:
    """Moves back the folders that a `keep` which was killed had moved away and not replaced yet."""
    for old in [old for stale in stale_folders(target) for old in stale.glob(f"{OLD}/*")]:
        if not (target / old.name).exists():
            old.rename(target / old.name)


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
    rows = [_row(folder, chapter) for folder, chapter in read.items()]
    said = false_alarms(chapter.aa_pairs for chapter in read.values())
    alarms = [f"**{part.strong}** {part.text}\n" for part in said]
    more = "".join(markdown.row_markdown([chapter.id, *chapter.size_row]) for chapter in read.values())
    texts = [_measured(manifests), _duration(read.values()), *alarms, f"**Intervals.** {INTERVALS}\n"]
    return "\n".join([INDEX, *texts, f"{HEAD}{''.join(rows)}", f"{MORE}{more}"])


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
    """Which commit was measured on which machine; one for all, or which experiments at and on which."""
    places: dict[str, list[str]] = {}
    for manifest in manifests.values():
        place = f"{_commit(manifest)}, {_machine(manifest)}, Linux {manifest['machine']['kernel']}"
        places.setdefault(place, []).extend(manifest["experiments"])
    if len(places) == 1:
        return f"**Measured** at commit {next(iter(places))}.\n"
    commits, machines = ({place(manifest) for manifest in manifests.values()} for place in (_commit, _machine))
    lines = "".join(f"* {place}: {', '.join(ids)}.\n" for place, ids in places.items())
    text = (
        f"**Measured** at {len(commits)} commits on machines of {len(machines)} kinds, each experiment at one "
        "commit on one machine. Times and rates of different kinds of machine cannot be compared.\n\n"
    )
    return f"{text}{lines}" if places else ""


def _duration(read: Iterable[Chapter]) -> str:
    """The time from the first window of each experiment to its last."""
    seconds = 0.0
    for chapter in read:
        times = [datetime.datetime.fromisoformat(record.began) for record in chapter.records if record.began]
        seconds += (max(times) - min(times)).total_seconds() if times else 0.0
    return f"**Duration.** The recordings took {seconds / 3600:.1f} hours together.\n"


def _commit(manifest: Mapping[str, Any]) -> str:
    commit, dash, state = manifest.get("source", "unknown").partition("-")
    return f"`{commit[:SHA]}{dash}{state}`"


def _machine(manifest: Mapping[str, Any]) -> str:
    """The kind of machine."""
    machine = manifest["machine"]
    return f"{machine['cpu']}, {machine['cpus']} CPUs"


def _chapter(folder: Path) -> Chapter:
    try:
        return chapters(Results(folder))[0]
    except (IndexError, KeyError, json.JSONDecodeError):
        help_text = "remove it, or run `zonda-lab keep` again"
        raise LabError(f"{folder} holds no results of one experiment", help_text) from None


def _row(folder: Path, chapter: Chapter) -> str:
    question = chapter.described["question"] or chapter.described["title"]
    link = f"[{chapter.id}]({folder.name}/report.md)"
    return markdown.row_markdown([link, question, _published(chapter), _here(chapter), chapter.verdict])


def _published(chapter: Chapter) -> str:
    """The published figure that `_here` stands beside."""
    if chapter.claims:
        return f"{chapter.claims[0].claim.says}: {chapter.claims[0].claim.published}"
    row = next((row for row in chapter.published if row.metric), None) or next(iter(chapter.published), None)
    return f"{row.what}: {row.figure}" if row else NONE


def _here(chapter: Chapter) -> str:
    """The first claim, or the published figure, or the primary metric: its values for the first servers."""
    if chapter.claims:
        says = chapter.claims[0].claim.says
        first = [done for done in chapter.claims if done.claim.says == says and not done.unmeasured]
        listed = _listed([(done.condition, claim_value(done)) for done in first])
        is_unnamed = any(map(_is_unnamed, first[:1]))
        return f"{METRICS[first[0].claim.metric].title}: {listed}" if is_unnamed else listed
    row = next((row for row in chapter.published if row.metric), None)
    metric = row.metric if row else chapter.analysis.metric
    cells = measured_for(chapter.records, row) if row else chapter.primary.cells if chapter.primary else []
    values = [(cell.label, value_text(cell, unit=METRICS[metric].unit)) for cell in cells if not cell.copy]
    return f"{METRICS[metric].title}: {_listed(values)}" if values else NONE


def _is_unnamed(done: ClaimCheck) -> bool:
    """Whether the value of a claim is a bare number, which only the title of its metric explains."""
    return not (done.text or done.value is None or done.claim.shape or done.claim.to or METRICS[done.claim.metric].unit)


def _listed(values: Sequence[tuple[str, str]]) -> str:
    """`zonda: 3 s; nsd: 4 s; 2 more`: the first value, and the first one of another server."""
    others = [value for value in values[1:] if _server(value) != _server(values[0])] or list(values[1:])
    shown = [*values[:1], *others[: MOST - 1]]
    texts = [": ".join(filter(None, value)) for value in shown]
    more = [f"{len(values) - len(shown)} more in the report"] if len(values) > len(shown) else []
    return "; ".join([*texts, *more]) or NONE


def _server(value: tuple[str, str]) -> str:
    return value[0].partition(", ")[0]


def _write_report(results: Results) -> None:
    """`report.md` with one plot only."""
    text, plot = report_of(results)
    shutil.rmtree(results.folder / "figures", ignore_errors=True)
    (results.folder / "figures").mkdir()
    if plot:
        (results.folder / "figures" / f"{plot.name}.svg").write_text(plot.svg)
    (results.folder / "report.md").write_text(text)


def report_of(results: Results) -> tuple[str, Figure | None]:
    """The text of `report.md`, and its plot."""
    built = document(results, opened=False)
    first = _main_plot(results, [part for part in built.parts if isinstance(part, Figure)])
    parts: list[Part] = [part for part in built.parts if not isinstance(part, Figure) or part is first]
    title = next(part.text for part in parts if isinstance(part, Heading) and part.level == 2)
    note = Text(f"`zonda-lab report lab/records/{results.folder.name}` builds the page with all plots.", "All plots.")
    return markdown.render(Document(title, [note, *parts])), first


def _main_plot(results: Results, figures: Sequence[Figure]) -> Figure | None:
    """The plot of the metric that the experiment names, or the first one."""
    ((id_, described),) = results.manifest()["experiments"].items()
    named = slug(f"{id_}-{described['analysis'].get('main_plot', '')}")
    chosen = [figure for figure in figures if figure.name.removesuffix("-boxes") == named]
    return next(iter([*chosen, *figures]), None)


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
