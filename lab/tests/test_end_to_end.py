"""The whole lab against fakes with known faults: each fault is detected, and nothing else."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import small_experiment

from zonda_lab import report
from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import plan_starts
from zonda_lab.experiments.catalogue import load
from zonda_lab.experiments.definition import QuerySpec, ServerSpec, Settings, TimingSpec, TrafficSpec, ZoneSpec
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.measurement import validity
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.validity import ValidityInput, reasons
from zonda_lab.procedures.queries import measure_window
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import LATE_SENDS, WindowRecord
from zonda_lab.run import runner as run
from zonda_lab.run.progress import Progress
from zonda_lab.servers import ADAPTERS, Echo, Feature, InstalledServer
from zonda_lab.telemetry.series import Telemetry

pytestmark = pytest.mark.usefixtures("namespaces")
RATE = 500.0


class Faulty(Echo):
    """An echo whose answers are checked."""

    def features(self, version: str) -> frozenset[Feature]:  # noqa: ARG002
        return frozenset({Feature.TCP, Feature.ZONES})


def faulty(fault: str, seconds: float = 2.0) -> Settings:
    return Settings(
        server=ServerSpec("echo", options={"echo": [f"--fault {fault}"] if fault else []}),
        zones=ZoneSpec("flat", records=20),
        queries=QuerySpec(count=200),
        traffic=TrafficSpec(rate=RATE),
        timing=TimingSpec(seconds=seconds),
    )


def measured(settings: Settings, generator: ZondaLoad) -> tuple[dict[str, float], list[str]]:
    """One window; reasons about the machine, which may be busy, are ignored."""
    installed = {"echo": InstalledServer("echo", Faulty(), ADAPTERS["echo"].find(), "1.0")}
    with Harness(settings, installed, generator) as harness:
        server = harness.start_server()
        harness.wait_ready(server)
        outcome = measure_window(harness, server, settings)
        telemetry = harness.observer.observed(outcome.span)
    seen = ValidityInput(outcome, telemetry, settings, is_isolated=False, receives_load=False)
    return outcome.metrics, [reason for reason in reasons(seen) if "answers are wrong" in reason or "died" in reason]


def test_a_correct_server_is_valid(zonda_load: ZondaLoad) -> None:
    metrics, invalid = measured(faulty(""), zonda_load)
    assert invalid == []
    assert metrics["answered_share"] == 1.0
    assert metrics["sent_qps"] == pytest.approx(RATE, rel=0.01)


def test_a_stall_appears_in_the_corrected_latency(zonda_load: ZondaLoad) -> None:
    """200 ms of every second: a fifth of the queries wait 100 ms on average."""
    metrics, _ = measured(faulty("stall-every-ms=800,stall-ms=200", seconds=3.0), zonda_load)
    assert 150_000 < metrics["latency_p99_us"] < 300_000
    assert metrics["answered_share"] == 1.0


def test_one_percent_wrong_answers_invalidate_a_window(zonda_load: ZondaLoad) -> None:
    metrics, invalid = measured(faulty("wrong-every=100"), zonda_load)
    assert metrics["wrong"] == pytest.approx(RATE * 2 / 100, abs=1)
    assert len(invalid) == 1 and "expected NOERROR answer, got SERVFAIL" in invalid[0]


def test_lost_answers_count_with_the_timeout_as_latency(zonda_load: ZondaLoad) -> None:
    metrics, invalid = measured(faulty("drop-every=20"), zonda_load)
    assert invalid == []
    assert metrics["answered_share"] == pytest.approx(0.95, abs=0.002)
    assert metrics["latency_p99_us"] == pytest.approx(1_000_000, rel=0.01)


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


def test_a_server_crash_invalidates_the_window(zonda_load: ZondaLoad) -> None:
    settings = faulty("", seconds=1.0)
    with Harness(settings, {"echo": ADAPTERS["echo"].installed()}, zonda_load) as harness:
        server = harness.start_server()
        harness.wait_ready(server)
        server.process.signal(signal.SIGKILL)
        assert server.process.wait(5)
        with pytest.raises(LabError, match="server ended"):
            server.process.require_alive()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_lab_cleans_up_and_prints_how_to_resume(
    small: Path, tmp_path: Path, zonda_load: ZondaLoad, number: signal.Signals
) -> None:
    small.write_text(small_experiment(seconds=20))
    command = [sys.executable, "-m", "zonda_lab", "run", str(small), "--out", "out", "--load", str(zonda_load.program)]
    lab = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    records = tmp_path / "out" / "records.jsonl"
    deadline = time.monotonic() + 120  # a busy machine delays the start
    while not records.exists():
        assert time.monotonic() < deadline and lab.poll() is None
        time.sleep(0.05)
    time.sleep(1.0)
    lab.send_signal(number)
    _, errors = lab.communicate(timeout=60)
    assert lab.returncode == 130
    assert "interrupted; all processes have been stopped" in errors
    assert "continue with: zonda-lab run --resume out" in errors
    assert "Traceback" not in errors


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
