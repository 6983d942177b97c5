import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zonda_lab import report
from zonda_lab.command import cli
from zonda_lab.errors import LabError
from zonda_lab.experiments import block_design, catalogue
from zonda_lab.report import committed, plots
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.run.runner import described

RECORDS = Path(__file__).parents[1] / "records"
PUBLISHED = [f"e{path.stem[1:]}" for path in catalogue.files() if int(path.stem[1:3]) <= 20]
KEPT = sorted(path.parent.name for path in RECORDS.glob("*/records.jsonl"))


@pytest.mark.skipif(not KEPT, reason="no committed results yet: make lab-records")
def test_every_published_experiment_has_its_result() -> None:
    assert set(PUBLISHED) <= set(KEPT)
    listed = (RECORDS / "README.md").read_text()
    assert all(f"]({name}/report.md)" in listed for name in KEPT)


@pytest.mark.parametrize("name", KEPT)
def test_every_committed_figure_follows_from_its_records(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report must state nothing that its records do not, so every word is compared."""
    monkeypatch.setattr(plots, "svg", lambda _: "")  # as plots differ between versions of matplotlib
    results = Results(RECORDS / name)
    assert results.lines.stat().st_size < 1_000_000
    text, plot = committed.report_of(results)
    stale = f"zonda-lab report {RECORDS} writes it anew"
    assert text == (results.folder / "report.md").read_text(), stale
    drawn = [path.stem for path in (results.folder / "figures").iterdir()]
    assert drawn == ([plot.name] if plot else []), stale


@pytest.mark.skipif(not KEPT, reason="no committed results yet: make lab-records")
def test_the_committed_index_follows_from_the_records() -> None:
    assert committed.index(RECORDS) == (RECORDS / "README.md").read_text()


@pytest.fixture(scope="session")
def finished(made: Results, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run that may be kept: not quick, of a clean commit."""
    results = Results(Path(shutil.copytree(made.folder, tmp_path_factory.mktemp("finished") / "results")))
    change(results, source="0123456789abcdef", quick=False)
    finish(results)
    return results


@pytest.fixture
def full(finished: Results, tmp_path: Path) -> Results:
    """A copy of the finished run, to change."""
    return Results(Path(shutil.copytree(finished.folder, tmp_path / "results")))


@pytest.fixture(scope="session")
def kept(finished: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `keep` makes of the finished run."""
    target = tmp_path_factory.mktemp("kept") / "records"
    assert cli.main(["keep", str(finished.folder), str(target)]) == 0
    return target


@pytest.fixture
def target(kept: Path, tmp_path: Path) -> Path:
    """A copy of the kept records, to change."""
    return Path(shutil.copytree(kept, tmp_path / "records"))


@pytest.fixture
def no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of folders alone: reports take seconds."""
    monkeypatch.setattr(committed, "_write_report", lambda results: (results.folder / "report.md").touch())
    monkeypatch.setattr(committed, "index", lambda _: "")


def test_all_committed_reports_are_rebuilt(target: Path) -> None:
    files = [target / "README.md", *target.glob("*/report.md")]
    written = [path.read_text() for path in files]
    for path in files:
        path.unlink()
    assert committed.is_committed(target) and not committed.is_committed(files[1].parent)
    assert committed.rebuild(target) == files[0]
    assert [path.read_text() for path in files] == written


def test_a_rebuilt_report_has_the_claims_of_today(target: Path, tmp_path: Path) -> None:
    """A claim that its experiment has corrected must not remain in a record."""
    results = Results(tmp_path / "one" / "e12-many-zones")
    shutil.copytree(target / "e12-many-zones", results.folder)
    manifest, lines = results.manifest(), results.lines.read_text()
    today = manifest["experiments"]["E12"]["claims"]
    old = {**manifest["experiments"]["E12"], "claims": [{**today[0], "says": "zones cost nothing"}], "left_out": "this"}
    results.write("manifest.json", {**manifest, "experiments": {"E12": old}})
    committed.rebuild(tmp_path / "one")
    rebuilt = results.manifest()["experiments"]["E12"]
    assert (rebuilt["claims"], rebuilt["left_out"], results.lines.read_text()) == (today, "this", lines)
    assert "zones cost nothing" not in (results.folder / "report.md").read_text()


def test_only_what_the_catalogue_has_and_was_measured_is_read_anew(full: Results) -> None:
    entry = {**full.manifest()["experiments"]["E12"], "claims": []}
    assert catalogue.described_today(entry)["claims"]
    for other in ({"name": "mine"}, {"id": "mine"}):
        assert catalogue.described_today({**entry, **other})["claims"] == []
    analysis = {**entry["analysis"], "margin": 0.5}
    unmeasured = {**entry, "analysis": analysis, "levels": {**entry["levels"], "server.name": ["zonda"]}}
    assert catalogue.described_today(unmeasured)["analysis"] == analysis


def finish(results: Results) -> None:
    """Records the planned starts that the run lacks, as skipped."""
    for id_, entry in results.manifest()["experiments"].items():
        for key in sorted(block_design.planned_keys(entry) - results.finished()):
            results.append(WindowRecord(id_, key, 0, 0, {}, skipped="no", valid=False, detail={"last": True}))


def change(results: Results, source: str, quick: bool, **more: object) -> None:
    manifest = results.manifest()
    results.write("manifest.json", {**manifest, "source": source, "options": {"quick": quick}, **more})


def test_keep_writes_small_folders_and_an_index(target: Path) -> None:
    folders = sorted(path.name for path in target.iterdir() if path.is_dir())
    assert folders == ["e01-response-rate", "e02-peak", "e12-many-zones", "e16-sysctl-sweep", "e21-transports"]
    listed = (target / "README.md").read_text()
    for name in folders:
        assert sorted(path.name for path in (target / name).iterdir()) == [
            "figures",
            "manifest.json",
            "records.jsonl",
            "report.md",
        ]
        assert f"]({name}/report.md)" in listed
        assert "/some/where" not in (target / name / "manifest.json").read_text()
        assert len(list((target / name / "figures").glob("*.svg"))) == 1
    again = report.write(target / "e16-sysctl-sweep").read_text()
    assert ">Claims<" in again and "<svg" in again


# Ends when it has moved the first folder away.
KILLED_KEEP = """
import os, sys
from pathlib import Path
from zonda_lab.command import cli
from zonda_lab.report import committed
committed._write_report = lambda results: None
rename = Path.rename
Path.rename = lambda path, to: rename(path, to) if path.name.startswith('.') else (rename(path, to), os._exit(9))
cli.main(["keep", *sys.argv[1:]])
"""


@pytest.mark.usefixtures("no_reports")
def test_keep_removes_what_a_killed_one_has_left(full: Results, target: Path) -> None:
    """A folder `.keep-*` must not stay in the records; if it has the only copy of a result, that comes back."""
    names = sorted(path.name for path in target.iterdir())
    killed = subprocess.run([sys.executable, "-c", KILLED_KEEP, full.folder, target], check=False)
    assert killed.returncode == 9 and not (target / "e01-response-rate").exists()
    manifest = full.manifest()
    full.write("manifest.json", {**manifest, "experiments": {"E21": manifest["experiments"]["E21"]}})
    committed.keep(full, target)
    assert sorted(path.name for path in target.iterdir()) == names


def test_an_interrupted_keep_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between two renames must not remove the old record with the temporary folder."""
    folder, new, old = (tmp_path / name for name in ("e02-peak", "new", "old/e02-peak"))
    for made in (folder, new):
        made.mkdir()
    (folder / "report.md").write_text("the only copy")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path == new:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        committed._replace(folder, new, old)
    assert (folder / "report.md").read_text() == "the only copy"


def test_the_index_has_one_short_row_per_experiment_and_says_how_it_was_measured(kept: Path) -> None:
    listed = (kept / "README.md").read_text()
    assert "**Measured** at commit `0123456789ab`, " in listed
    assert "**Intervals.** Medians" in listed and "Holm" in listed
    assert "**False alarms:**" in listed
    rows = [line.strip("|").split("|") for line in listed.splitlines() if line.startswith("| [")]
    assert [row[0].strip()[1:].partition("]")[0] for row in rows] == ["E1", "E2", "E12", "E16", "E21"]
    for row in rows:
        assert len(row) == 5 and len("|".join(row)) < 500
        assert 1 <= len(row[-1].split()) <= 5, row[-1]
        assert not row[3].endswith("… ") and row[3].count("; ") <= 2
    size = [line.strip("|").split("|") for line in listed.splitlines() if line.startswith("| E")]
    assert [row[0].strip() for row in size] == ["E1", "E2", "E12", "E16", "E21"]
    assert "PowerDNS" in size[0][2] and "blocks" in size[0][1]


@pytest.mark.skipif("e07-memory" not in KEPT, reason="E7 is not committed")
def test_values_of_the_index_have_units_and_are_few(tmp_path: Path) -> None:
    """No value must be without its unit (E7)."""
    shutil.copytree(RECORDS / "e07-memory", tmp_path / "e07-memory")
    row = next(line for line in committed.index(tmp_path).splitlines() if line.startswith("| [E7]"))
    assert re.search(r"\| zonda: [\d.]+ bytes \([^)]+\); nsd: [\d.]+ bytes \([^)]+\); 2 more in the report \|", row)


def test_the_index_names_commits_and_machines_if_they_differ(target: Path) -> None:
    """“Measured commits” need their machines, as times of different machines cannot be compared."""
    other = Results(target / "e02-peak")
    manifest = other.manifest()
    other.write("manifest.json", {**manifest, "source": "fedcba", "machine": {**manifest["machine"], "cpu": "AMD"}})
    listed = committed.index(target)
    assert "**Measured** at 2 commits on machines of 2 kinds, each experiment at one commit on one machine." in listed
    assert re.search(r"^\* `fedcba`, AMD, \d+ CPUs?, Linux \S+: E2\.$", listed, re.MULTILINE)


def test_a_committed_report_shows_the_plot_that_answers_its_question(full: Results, tmp_path: Path) -> None:
    """It must not show the shares of queries answered, which are nearly all 1 (E24)."""
    manifest = full.manifest()
    manifest["experiments"] = {id_: manifest["experiments"][id_] for id_ in ("E1", "E12")}
    manifest["experiments"]["E12"]["analysis"]["main_plot"] = "zones_per_s"
    full.write("manifest.json", manifest)
    committed.keep(full, tmp_path / "records")
    drawn = {path.stem.removesuffix("-boxes") for path in (tmp_path / "records").glob("*/figures/*.svg")}
    assert drawn == {"E1-curve", "E12-zones_per_s"}


@pytest.mark.usefixtures("no_reports")
def test_keep_keeps_the_trials_of_a_peak_search(full: Results, tmp_path: Path) -> None:
    searched = dataclasses.replace(
        next(r for r in full.records() if r.experiment == "E2"), detail={"trials": [{"rate": 1.0}]}
    )
    full.append(searched)
    assert cli.main(["keep", str(full.folder), str(tmp_path / "records")]) == 0
    assert Results(tmp_path / "records" / "e02-peak").records()[-1].detail["trials"] == [{"rate": 1.0}]


@pytest.mark.parametrize(
    ("source", "quick", "message"),
    [
        ("0123456-dirty", False, "was not measured from a commit (source: 0123456-dirty)"),
        ("unknown", False, "was not measured from a commit (source: unknown)"),
        ("0123456", True, "is a quick run"),
    ],
)
def test_keep_refuses_what_cannot_be_quoted(
    full: Results, tmp_path: Path, source: str, quick: bool, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(full, source, quick)
    assert cli.main(["keep", str(full.folder), str(tmp_path / "records")]) == cli.ERROR
    assert message in capsys.readouterr().err
    assert not (tmp_path / "records").exists()


def test_keep_refuses_an_unfinished_run(full: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What an interrupted run has measured must not replace a complete record."""
    records = full.records()
    full.remove_start(next(record.start for record in records if record.detail.get("last")))
    assert cli.main(["keep", str(full.folder), str(tmp_path / "records")]) == cli.ERROR
    printed = capsys.readouterr().err
    assert re.search(rf"is not finished: 1 of \d+ starts are missing\n  help: .*--resume {full.folder}`", printed)
    assert not (tmp_path / "records").exists()


def test_planned_starts_are_those_of_the_run() -> None:
    for path in catalogue.files():
        experiment = catalogue.load(path, quick=True)
        planned = {start.key for start in block_design.plan_starts(experiment, 1)}
        assert block_design.planned_keys(json.loads(json.dumps(described(experiment)))) == planned


@pytest.mark.usefixtures("no_reports")
def test_keep_replaces_all_older_folders_or_none(
    full: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder must be removed before the new content of all is written."""
    target = tmp_path / "records"
    committed.keep(full, target)
    before = {path: path.read_bytes() for path in sorted(target.rglob("*")) if path.is_file()}
    written: list[Results] = []

    def failing(results: Results) -> None:
        written.append(results)
        if len(written) == 3:
            raise LabError("the disk is full")

    with monkeypatch.context() as patched, pytest.raises(LabError, match="the disk is full"):
        patched.setattr(committed, "_write_report", failing)
        committed.keep(full, target)
    assert {path: path.read_bytes() for path in sorted(target.rglob("*")) if path.is_file()} == before
    (target / "e02-peak" / "stale").touch()
    committed.keep(full, target)
    assert {path: path.read_bytes() for path in sorted(target.rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize(
    ("id_", "name", "folder"),
    [
        ("E7", "memory", "e07-memory"),
        ("mine", "", "mine"),
        ("My test/1", "../x", "my-test-1-x"),
        ("???", "", "experiment"),
    ],
)
def test_an_experiment_of_any_id_has_a_folder(id_: str, name: str, folder: str) -> None:
    assert committed.folder_name(id_, name) == folder


def test_keep_stores_a_user_defined_experiment(full: Results, tmp_path: Path) -> None:
    """Ids that are not a letter and a number must not end in a traceback."""
    described = {**full.manifest()["experiments"]["E2"], "id": "mine", "name": ""}
    records = [dataclasses.replace(record, experiment="mine") for record in full.records() if record.experiment == "E2"]
    full.lines.write_text("")
    for record in records:
        full.append(record)
    change(full, "0123456", False, experiments={"mine": described})
    finish(full)
    assert cli.main(["keep", str(full.folder), str(tmp_path / "records")]) == 0
    assert "| [mine](mine/report.md) |" in (tmp_path / "records" / "README.md").read_text()


def test_results_of_an_earlier_lab_are_refused(full: Results) -> None:
    """It counts late answers, and its peak search has a ceiling."""
    change(full, "0123456", False, format=1)
    with pytest.raises(LabError, match="is a result of an earlier lab"):
        report.write(full.folder)


@pytest.mark.usefixtures("no_reports")
def test_keep_names_and_omits_experiments_without_valid_windows(
    full: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (full.folder / "records.jsonl").read_text().splitlines(keepends=True)
    (full.folder / "records.jsonl").write_text("".join(line for line in lines if '"E2"' not in line))
    finish(full)
    assert cli.main(["keep", str(full.folder), str(tmp_path / "records")]) == 1
    assert "not stored, because no window was valid: E2" in capsys.readouterr().err
    assert not (tmp_path / "records" / "e02-peak").exists()


def test_the_evidence_of_the_suspected_faults_exists() -> None:
    """FAULTS.md names tests, which may be renamed."""
    root = Path(__file__).parents[2]
    named = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+){3,})`", (root / "lab" / "FAULTS.md").read_text()))
    paths = [*root.glob("lab/tests/*.py"), *root.glob("crates/load/tests/**/*.rs")]
    written = set(re.findall(r"^ *(?:def|fn) (\w+)\(", "".join(path.read_text() for path in paths), re.MULTILINE))
    assert len(named) > 10 and named <= written
