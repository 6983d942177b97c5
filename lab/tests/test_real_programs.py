"""Small runs with zonda and zonda-load of this tree, from the command line to the report."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import BUILT

from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import disturbed

ZONDA_AS_PRIMARY = ("primary.name=zonda",)
CONTENTION = ("the hypervisor took", "other programs used", "something waited for a disk", "telemetry came")
SMALL = ("timing.blocks=1", "timing.seconds=0.5", "timing.retries=0", "queries.count=1000")

pytestmark = [
    pytest.mark.usefixtures("namespaces"),
    pytest.mark.skipif(BUILT is None, reason="needs zonda and zonda-load: cargo build"),
]


@pytest.mark.parametrize(
    ("experiment", "changes", "metrics"),
    [
        ("E20", ("traffic.ramp=0.5",), {"cpu_us_per_query", "answered_share", "latency_p99_us", "first_loss_qps"}),
        ("E31", (), {"cpu_us_per_query", "connect_mean_us"}),
        ("E34", (), {"cpu_us_per_query", "connect_mean_us"}),
        ("E35", ("change.connections=100",), {"bytes_per_connection", "connects_per_s"}),
        ("E10", ("zones.records=500",), {"records_per_s", "bytes_per_message"}),
        ("E7", ("zones.records=2000",), {"bytes_per_record", "first_answer_s"}),
        ("E9", ("timing.finish-s=20",), {"transfer_s", "primary_secondary_ratio"}),
        ("E18", ("change.connections=200",), {"bytes_per_connection", "connects_per_s"}),
        ("E11", (*ZONDA_AS_PRIMARY, "zones.records=500", "timing.finish-s=20"), {"transfer_s", "cpu_us_per_record"}),
        ("E29", ("zones.records=500",), {"versions_per_s", "latency_p99_us"}),
        ("E33", (), {"answered_s", "late_share", "forgotten_s", "processor_us_per_query", "udp_drops"}),
        ("E15", (*ZONDA_AS_PRIMARY, "timing.finish-s=20"), {"transfer_s", "zones_per_s"}),
    ],
)
def test_an_experiment_runs_from_the_command_line_to_its_report(
    experiment: str,
    changes: tuple[str, ...],
    metrics: set[str],
    lab: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    """Windows may be invalid because the machine is busy, but not because of wrong answers or failed starts.

    A lab whose generator is late in all windows must not pass.
    """
    assert BUILT is not None
    if experiment == "E33" and shutil.which("nft") is None:
        pytest.skip("needs nft (nftables)")
    real = {**os.environ, "ZONDA": str(BUILT / "zonda"), "ZONDA_LOAD": str(BUILT / "zonda-load")}
    settings = [word for change in (*SMALL, *changes) for word in ("--set", change)]
    for out in ("out1", "out2", "out3"):
        done = lab("run", "--quick", experiment, "--servers", "zonda", "--out", out, *settings, env=real)
        assert f"report: {out}/report.html" in done.stdout, done.stderr
        records = Results(tmp_path / out).records()
        for record in records:
            assert record.valid or is_contended(record.reasons), json.dumps(record.reasons or record.skipped)
        assert metrics <= set().union(*(record.metrics for record in records))
        assert "Result." in (tmp_path / out / "report.html").read_text()
        if any(record.valid for record in records):
            return
    pytest.skip(f"the machine was busy in all windows of three runs: {records[-1].reasons}")


def is_contended(reasons: list[str]) -> bool:
    """Whether other load explains them all and is seen: a generator may also be late by a fault of its own."""
    return disturbed(reasons) and any(words in reason for reason in reasons for words in CONTENTION)
