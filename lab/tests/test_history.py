import json
import math
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Make

from zonda_lab.analysis import history
from zonda_lab.analysis.history import Recording
from zonda_lab.command import cli


def recording(
    make: Make,
    number: int,
    cost: float,
    blocks: int = 8,
    seconds: float = 5.0,
    server: str = "zonda",
    version: str = "0.1",
    **machine: Any,
) -> Recording:
    draw = np.random.default_rng(number)
    records = [make(b, server=server, cpu_us_per_query=cost * draw.lognormal(0, 0.02)) for b in range(blocks)]
    described = {
        "analysis": {"metric": "cpu_us_per_query", "compare": "server.name"},
        "settings": {"timing": {"blocks": blocks, "seconds": seconds}},
    }
    manifest = {
        "source": f"commit{number}",
        "began": f"2026-01-{number + 1:02}T00:00:00+00:00",
        "machine": {"cpu": "x", "cpus": 2, **machine},
        "generator": {"name": "zonda-load"},
        "servers": {server: {"kind": server, "version": version}},
        "experiments": {"E1": described},
    }
    return Recording(manifest, [json.dumps(asdict(record)) for record in records])


def _only(made: Recording) -> tuple[history.Key, history.Point]:
    (found,) = history._points(made)
    return found


def test_a_change_is_found_at_its_commit(make_record: Make) -> None:
    costs = [3.0, 3.01, 2.99, 3.0, 2.7, 2.71, 2.69]
    series = history.series_of([recording(make_record, n, cost) for n, cost in enumerate(costs)])
    assert [(each.metric, len(each.points)) for each in series] == [("cpu_us_per_query", 7)]
    assert [change.at.commit for change in series[0].changes] == ["commit4"]
    effect = series[0].changes[0].effect
    assert effect.ratio == pytest.approx(0.9, abs=0.02) and effect.p < 0.05


def test_the_starts_of_a_recording_are_one_value(make_record: Make) -> None:
    """The machine differs between recordings, so eight starts of one are no eight values."""
    costs = [3.0, 3.3, 3.1, 3.4, 3.2, 3.5]
    points = [point for _, point in map(_only, (recording(make_record, n, cost) for n, cost in enumerate(costs)))]
    effect = history._effect(points, (0, 3, 6), 1)
    assert effect.n == 3 and effect.p > 0.05
    assert math.isnan(history._effect(points, (0, 2, 6), 1).p)


def test_unchanged_series_have_no_changes(make_record: Make) -> None:
    """Of these ten, with fixed seeds."""
    changes = []
    for run in range(10):
        points = [recording(make_record, n + 20 * run, 3.0) for n in range(6)]
        for n, point in enumerate(points):
            point.manifest["began"] = f"2026-01-{n + 1:02}"  # type: ignore[index]
        changes.append(len(history.series_of(points)[0].changes))
    assert changes == [0] * 10


def test_recordings_of_other_settings_are_not_compared(make_record: Make) -> None:
    assert history.series_of([recording(make_record, 0, 3.0), recording(make_record, 1, 9.0, seconds=1.0)]) == []
    assert history.series_of([recording(make_record, 0, 3.0), recording(make_record, 1, 9.0, blocks=9)])[0].changes


SIX, SEVEN = {"kernel": "6.1"}, {"kernel": "7.0"}


@pytest.mark.parametrize(
    ("server", "versions", "machines", "explained"),
    [
        ("nsd", ["4.14"] * 3, [SIX] * 3, []),
        ("nsd", ["4.14"] * 3, [SIX, SEVEN, SEVEN], ["commit1 (2026-01-02): machine.kernel: 6.1, then 7.0"]),
        (
            "nsd",
            ["4.14", "4.15", "4.15"],
            [SIX, SIX, SEVEN],
            [
                "commit1 (2026-01-02): servers.nsd: 4.14, then 4.15",
                "commit2 (2026-01-03): machine.kernel: 6.1, then 7.0",
            ],
        ),
        (
            "nsd",
            ["4.14", "4.15", "4.15"],
            [{"memory_mb": 1}, {"memory_mb": 2}, {"memory_mb": 2}],
            ["commit1 (2026-01-02): machine.memory_mb: 1, then 2; servers.nsd: 4.14, then 4.15"],
        ),
        ("nsd", ["4.14"] * 3, [{}, SIX, {**SIX, "system": "y"}], []),
        ("nsd", ["4.14"] * 3, [{"python": "3.11"}, {"python": "3.12"}, {"python": "3.13"}], []),
        ("zonda", ["0.1", "0.2", "0.3"], [SIX] * 3, []),
    ],
)
def test_another_machine_kernel_or_version_of_a_peer_is_marked_in_its_series(
    make_record: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    server: str,
    versions: list[str],
    machines: list[dict[str, Any]],
    explained: list[str],
) -> None:
    """A series must not mix them silently. What only one recording describes is not known to differ."""
    given = enumerate(zip(versions, machines, strict=True))
    made = [
        recording(make_record, n, 3.0, server=server, version=version, **machine) for n, (version, machine) in given
    ]
    monkeypatch.setattr(history, "_committed", lambda _: made)
    assert cli.main(["history"]) == 0
    row, *rest = capsys.readouterr().out.splitlines()
    assert row.startswith(f"E1 cpu_us_per_query {server}: ") and row.count("→ *") == len(explained)
    assert [line for line in rest if "*" in line] == [f"     * at {line}" for line in explained]


def test_history_reads_the_commits_of_a_folder(
    make_record: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "records" / "e01"
    folder.mkdir(parents=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number, cost in enumerate((3.0, 3.0, 4.0, 4.0)):
        made = recording(make_record, number, cost)
        (folder / "manifest.json").write_text(json.dumps(made.manifest))
        (folder / "records.jsonl").write_text("\n".join(made.lines) + "\n")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", f"record {number}"], check=True)
    assert cli.main(["history", str(tmp_path / "records")]) == 0
    listed = capsys.readouterr().out
    assert "changed at commit2 (2026-01-03): 1.3" in listed and "too few recordings for a p value" in listed
    assert "1 changes" in listed
    assert cli.main(["history", str(tmp_path.parent)]) == cli.ERROR
