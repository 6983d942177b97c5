"""Whole runs with an echo server: their records, resumption, interruption and report."""

import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import small_experiment

from zonda_lab import report
from zonda_lab.experiments.block_design import plan_starts
from zonda_lab.experiments.catalogue import load
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.measurement import validity
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import LATE_SENDS, WindowRecord
from zonda_lab.run import runner as run
from zonda_lab.run.progress import Progress
from zonda_lab.servers import ADAPTERS
from zonda_lab.telemetry.series import Telemetry

pytestmark = pytest.mark.usefixtures("namespaces")
WHOLE = small_experiment(rate=300, blocks=3, seconds=0.6, baseline="one")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(WHOLE)
    return path


def run_it(path: Path, folder: Path, generator: ZondaLoad) -> Results:
    experiment, installed, results = load(path), {"echo": ADAPTERS["echo"].installed()}, Results(folder)
    if not folder.exists():
        results.create(run.manifest([experiment], installed, {}, generator, {}))
    with Path(os.devnull).open("w") as quiet:
        run.Runner(results, installed, generator, Progress(1.0, quiet)).run(plan_starts(experiment, 1))
    return results


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, zonda_load: ZondaLoad) -> Path:
    """A whole run, measured once; tests take copies."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(WHOLE)
    run_it(folder / "small.toml", folder / "results", zonda_load)
    return folder


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Results:
    return Results(shutil.copytree(finished / "results", tmp_path / "results"))


def test_an_interrupted_run_resumes_where_it_stopped(small: Path, results: Results, zonda_load: ZondaLoad) -> None:
    whole = results.records()
    assert len(whole) == 3 * 3  # three blocks of two treatments and the second baseline
    lines = results.lines.read_text().splitlines(keepends=True)
    results.lines.write_text("".join(lines[:7]) + lines[7][:50])
    again = run_it(small, results.folder, zonda_load).records()
    assert {record.start for record in again} == {record.start for record in whole} and len(again) == 9
    assert [record.began for record in again[:7]] == [record.began for record in whole[:7]]
    assert [record.began for record in again[7:]] != [record.began for record in whole[7:]]


def test_records_contain_telemetry_histograms_and_the_window(results: Results) -> None:
    for record in results.records():
        assert (results.folder / record.files["telemetry"]).exists()
        assert (results.folder / record.files["latency"]).exists()
        assert record.window[1] - record.window[0] > 0.6
        assert record.metrics["sent_qps"] == pytest.approx(300, rel=0.02)


def invalid_and_skipped(records: list[WindowRecord]) -> list[str]:
    return [record.skipped or "; ".join(record.reasons) for record in records]


@pytest.mark.parametrize(("metric", "attempts"), [("answered_share", 1), ("latency_p50_us", 2)])
def test_a_late_generator_invalidates_latency_and_is_repeated_only_for_latency_metrics(
    small: Path,
    tmp_path: Path,
    altered: Callable[..., ZondaLoad],
    monkeypatch: pytest.MonkeyPatch,
    metric: str,
    attempts: int,
) -> None:
    late = [f"100 of 100 {LATE_SENDS}"]
    generator = altered(schedule_error={"p50": 0, "p99": 5_000_000, "max": 0}, invalid_because=late)
    monkeypatch.setattr(validity, "machine_reasons", lambda *_: [])  # whatever else this machine was doing
    monkeypatch.setattr(validity, "SERVER_WAIT", math.inf)
    small.write_text(small_experiment(metric=metric, retries=1))
    results = run_it(small, tmp_path / "results", generator)
    records = results.records()
    assert len(records) == 2 * attempts
    for record in records:
        found = [reason for reason in record.latency_reasons if "waited for its CPU" not in reason]
        assert record.valid and late[0] in found
        assert record.counts_for("answered_share") and not record.counts_for("latency_p50_us")
        assert record.metrics["answered_share"] > 0.9  # on a busy machine the last answers come late
    text = report.write(results.folder).with_suffix(".md").read_text()
    assert "Share of queries answered" in text and "Median latency" not in text


def test_a_missing_server_is_skipped_with_the_reason(small: Path, tmp_path: Path, zonda_load: ZondaLoad) -> None:
    small.write_text(small_experiment("nsd"))
    reasons = invalid_and_skipped(run_it(small, tmp_path / "results", zonda_load).records())
    assert len(reasons) == 2 and all(why.startswith("server `nsd` is not installed") for why in reasons)


def test_a_server_that_fails_to_start_is_one_invalid_record(small: Path, tmp_path: Path, zonda_load: ZondaLoad) -> None:
    small.write_text(small_experiment(options='"--fault no-such-option=1"'))
    reasons = invalid_and_skipped(run_it(small, tmp_path / "results", zonda_load).records())
    assert len(reasons) == 2
    assert all("server ended with status 2" in why and "no-such-option=1" in why for why in reasons)


def test_report_and_comparison_need_only_the_records(
    results: Results, lab: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    lines = [json.loads(line) for line in results.lines.read_text().splitlines()]
    valid = [
        {**line, "valid": True, "reasons": [], "latency_reasons": []} for line in lines
    ]  # whatever else this machine was doing
    results.lines.write_text("".join(json.dumps(line) + "\n" for line in valid))
    assert lab("report", "results").returncode == 0
    first = (results.folder / "report.html").read_text()
    assert lab("report", "results").returncode == 0
    assert (results.folder / "report.html").read_text() == first
    for part in ("T1 A test", "A/A control:", "Share of queries answered", "Machine."):
        assert part in first
    figures = {path.stem for path in (results.folder / "figures").glob("*.svg")}
    assert {"T1-latency", "T1-answered_share-boxes"} <= figures
    shown = {record.treatment["kind"]: record for record in reversed(results.records()) if not record.copy}
    seen = {kind: Telemetry.load(results.folder / record.files["telemetry"]) for kind, record in shown.items()}
    watched = {f"T1-time-echo-{kind}" for kind, telemetry in seen.items() if len(telemetry.samples) > 2}
    assert {name for name in figures if "-time-" in name} == watched  # all, if this machine lets telemetry run
