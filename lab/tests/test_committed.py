from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from zonda_lab import cli, report
from zonda_lab.experiment import catalogue
from zonda_lab.results import Results

RECORDS = Path(__file__).parents[1] / "records"
PUBLISHED = [f"e{path.stem[1:]}" for path in catalogue() if int(path.stem[1:3]) <= 20]
KEPT = [name for name in PUBLISHED if (RECORDS / name / "records.jsonl").exists()]


@pytest.mark.skipif(not KEPT, reason="no committed results yet: make lab-records")
def test_every_published_experiment_has_its_result() -> None:
    assert KEPT == PUBLISHED
    listed = (RECORDS / "README.md").read_text()
    assert all(f"]({name}/report.md)" in listed for name in KEPT)


@pytest.mark.parametrize("name", KEPT)
def test_a_committed_result_can_be_rebuilt(name: str, tmp_path: Path) -> None:
    results = Results(Path(shutil.copytree(RECORDS / name, tmp_path / name)))
    assert results.lines.stat().st_size < 200_000
    assert any(record.counts for record in results.records())
    page = report.write(results.folder).read_text()
    assert "<svg" in page and "Result." in page and "published" in page


def test_keep_writes_small_folders_and_an_index(made: Results, tmp_path: Path) -> None:
    target = tmp_path / "records"
    assert cli.main(["keep", str(made.folder), str(target)]) == 0
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
    assert "140,000 to 160,000 answers per second" in listed and "refuted" in listed
    again = report.write(target / "e16-sysctl-sweep").read_text()
    assert "Published claims" in again and "<svg" in again


def test_keep_names_and_omits_experiments_without_valid_windows(
    made: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(made.folder, tmp_path / "results"))
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(line for line in lines if '"E2"' not in line))
    assert cli.main(["keep", str(folder), str(tmp_path / "records")]) == 1
    assert "not stored, because no window was valid: E2" in capsys.readouterr().err
    assert not (tmp_path / "records" / "e02-peak").exists()
