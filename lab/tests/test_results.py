import itertools
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Make

from zonda_lab.analysis import compare
from zonda_lab.command import cli
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import Settings, TimingSpec, TrafficSpec
from zonda_lab.results.conditions import conditions, differences
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import parse_record, selected


def described(**timing: float) -> dict[str, Any]:
    """The experiments of a manifest."""
    analysis = {"metric": "cpu_us_per_query", "compare": "server.name", "baseline": "nsd", "metrics": []}
    return {"E1": {"analysis": analysis, "settings": {"timing": {"blocks": 8, "seconds": 5.0, **timing}}}}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    made = Results(tmp_path / "results")
    servers = {label: {"kind": "nsd", "version": "1", "sha256": "0"} for label in ("nsd", "knot", "zonda")}
    conditions = {"machine": {"cpu": "x", "cpus": 2}, "generator": {"name": "zonda-load"}}
    made.create({"experiments": described(), "servers": servers, **conditions})
    return made


def test_records_round_trip(results: Results, make_record: Make) -> None:
    record = make_record(1, server="nsd", cpu_us_per_query=3.0)
    record.reasons, record.detail, record.saturated = ["a reason"], {"points": [[1, 2]]}, [[0.5, "what"]]
    record.latency_reasons = ["late"]
    results.append(record)
    assert results.records() == [record]
    assert selected(results.records(), **{"server.name": "nsd"}) == [record]
    assert selected(results.records(), **{"server.name": "knot"}) == []


def test_a_record_without_latency_reasons_is_read(make_record: Make) -> None:
    old = {key: value for key, value in asdict(make_record(1)).items() if key != "latency_reasons"}
    record = parse_record(json.dumps(old))
    assert record == make_record(1) and record.counts_for("latency_p99_us")


def test_a_setting_that_is_newer_than_a_result_had_its_default(results: Results) -> None:
    """A new key of an experiment file must not make earlier results incomparable with later ones."""
    manifest = results.manifest()
    old = manifest["experiments"]["E1"]
    now = {"settings": {**asdict(Settings()), "timing": {**asdict(TimingSpec()), "seconds": 5.0}}}
    assert "traffic" not in old["settings"]
    assert list(differences(conditions(manifest, old), conditions(manifest, now))) == []
    later = {"settings": {**now["settings"], "traffic": asdict(TrafficSpec(ramp=2.0))}}
    found = list(differences(conditions(manifest, old), conditions(manifest, later)))
    assert found == ["settings.traffic.ramp: 1.0, then 2.0"]


def test_an_incomplete_last_line_is_ignored_and_removed(results: Results, make_record: Make) -> None:
    results.append(make_record(1))
    with results.lines.open("a") as file:
        file.write('{"experiment": "E1", "sta')
    assert len(results.records()) == 1
    results.remove_partial_line()
    results.append(make_record(2))
    assert [record.block for record in results.records()] == [1, 2]


def test_a_start_is_finished_when_its_last_window_is_recorded(results: Results, make_record: Make) -> None:
    first, last, skipped = make_record(1), make_record(1), make_record(2)
    last.detail["last"], skipped.skipped = True, "cannot"
    results.append(first)
    assert results.finished() == set()
    results.remove_start(first.start)
    assert results.records() == []
    for record in (skipped, first, last):
        results.append(record)
    assert results.finished() == {first.start}


def test_existing_results_are_not_overwritten(results: Results) -> None:
    with pytest.raises(LabError, match="already contains results"):
        results.create({})
    with pytest.raises(LabError, match="contains no results"):
        Results(results.folder / "elsewhere").manifest()
    with pytest.raises(LabError, match="schema 99"):
        parse_record('{"schema": 99}')


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("records.jsonl", b"garbage{\n", "records.jsonl: line 1 is not a record"),
        ("records.jsonl", b"\xff\x00\n", "records.jsonl: line 1 is not a record"),
        ("records.jsonl", b"[1]\n", "records.jsonl: line 1 is not a record"),
        ("records.jsonl", b'{"schema": 1, "colour": "red"}\n', "records.jsonl: line 1 is not a record"),
        ("manifest.json", b'{"experiments": {', "manifest.json is damaged"),
        ("manifest.json", b"{}", "manifest.json is not a manifest"),
    ],
)
def test_damaged_results_are_one_error_message(results: Results, file: str, content: bytes, message: str) -> None:
    (results.folder / file).write_bytes(content)
    with pytest.raises(LabError, match=message):
        results.manifest()
        results.records()


def fill(results: Results, make_record: Make, values: dict[str, float], n: int = 8) -> None:
    for block in range(n):
        for server, value in values.items():
            wobble = 1 + 0.002 * ((block * 7 + len(server)) % 5 - 2)
            results.append(make_record(block, server=server, cpu_us_per_query=value * wobble * (1 + 0.1 * block)))


def compared(results: Results, a: str = "nsd", b: str = "zonda", margin: float = 0.02) -> compare.Comparison:
    """Two servers of one result."""
    return compare.compare(compare.Side(results.folder, a), compare.Side(results.folder, b), margin)


def set_analysis(results: Results, **changes: object) -> None:
    manifest = results.manifest()
    manifest["experiments"]["E1"]["analysis"] |= changes
    results.write("manifest.json", manifest)


@pytest.mark.parametrize(("b", "status"), [(3.0, 0), (3.3, 1), (2.7, 0)])
def test_two_servers_of_one_result_are_compared_by_block(
    results: Results, make_record: Make, b: float, status: int
) -> None:
    fill(results, make_record, {"nsd": 3.0, "zonda": b})
    done = compared(results)
    assert done.interleaved and len(done.metrics) == 1
    assert done.status == status
    assert done.metrics[0].effect.ratio == pytest.approx(b / 3.0, abs=0.01)


def test_two_results_are_compared_without_blocks(results: Results, make_record: Make, tmp_path: Path) -> None:
    other = Results(tmp_path / "other")
    other.create(results.manifest())
    fill(results, make_record, {"nsd": 3.0})
    fill(other, make_record, {"nsd": 9.0})
    done = compare.compare(compare.Side.parse(str(results.folder)), compare.Side.parse(str(other.folder)), 0.02)
    assert not done.interleaved
    assert done.status == compare.WORSE and done.summary.startswith("B is worse than A: 1 worse")


@pytest.mark.parametrize(("n", "metrics"), [(3, 1), (5, 12), (6, 12)])
@pytest.mark.parametrize("interleaved", [True, False])
def test_a_factor_of_three_is_significant_with_few_blocks_and_many_metrics(
    results: Results, make_record: Make, tmp_path: Path, n: int, metrics: int, interleaved: bool
) -> None:
    """Rank tests alone cannot show it: before correction, three against three starts have p >= 0.1, six pairs 0.03."""
    worse = results if interleaved else Results(tmp_path / "other")
    if not interleaved:
        worse.create(results.manifest())
    for target, server, value in ((results, "nsd", 3.0), (worse, "zonda" if interleaved else "nsd", 9.0)):
        for block, level in itertools.product(range(n), range(metrics)):
            record = make_record(block, server=server, cpu_us_per_query=value * (1 + 0.01 * (block * 7 % 5)))
            record.within = {"traffic.rate": str(level)}
            target.append(record)
    sides = [compare.Side(results.folder, "nsd"), compare.Side(worse.folder, "zonda" if interleaved else "nsd")]
    done = compare.compare(sides[0], sides[1], 0.02)
    assert len(done.metrics) == metrics and done.interleaved == interleaved
    assert done.status == compare.WORSE and {line.decision for line in done.metrics} == {"worse"}


def test_a_significant_loss_within_the_margin_is_not_worse(results: Results, make_record: Make) -> None:
    fill(results, make_record, {"nsd": 3.0, "zonda": 3.03}, n=12)
    done = compared(results, margin=0.05)
    found = done.metrics[0]
    assert found.effect and found.effect.p < 0.05
    assert found.decision == "not worse" and done.status == compare.NOT_WORSE
    strict = compared(results, margin=0.005)
    assert strict.metrics[0].decision == "worse" and strict.status == compare.WORSE


def test_an_undetected_loss_is_status_2(results: Results, make_record: Make) -> None:
    """Noise of 10 % hides a loss of 7 % in five blocks; "no evidence" is not evidence."""
    draw = np.random.default_rng(4)
    for block in range(5):
        for server, value in (("nsd", 3.0), ("zonda", 3.2)):
            cost = value * draw.lognormal(0, 0.1)
            results.append(make_record(block, server=server, cpu_us_per_query=cost))
    done = compared(results)
    assert done.status == compare.UNDETECTED and done.summary.startswith("undetected: more blocks are needed")


@pytest.mark.parametrize(("b", "decision"), [(0, "not worse"), (500, "worse")])
def test_counts_of_zero_are_compared(results: Results, make_record: Make, b: int, decision: str) -> None:
    """Ratios to zero do not exist, but lost queries must be compared."""
    for block in range(5):
        results.append(make_record(block, server="nsd", cpu_us_per_query=3.0, lost=0))
        results.append(make_record(block, server="zonda", cpu_us_per_query=3.0, lost=b))
    set_analysis(results, metrics=["lost"])
    done = compared(results)
    assert [line.decision for line in done.metrics] == ["not worse", decision]
    assert done.status == (compare.WORSE if b else compare.NOT_WORSE)


def test_invalid_latency_is_not_compared(results: Results, make_record: Make) -> None:
    for block in range(5):
        for server in ("nsd", "zonda"):
            record = make_record(block, server=server, cpu_us_per_query=3.0 + block, latency_p99_us=100.0 + block)
            record.latency_reasons = ["late"] if server == "zonda" else []
            results.append(record)
    set_analysis(results, metrics=["latency_p99_us"])
    done = compared(results)
    assert [(line.metric, line.decision) for line in done.metrics if line.decision != "not worse"] == [
        ("latency_p99_us", "too few starts")
    ]
    assert done.status == compare.UNDETECTED


def test_what_b_did_not_measure_is_undetected(
    results: Results, make_record: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Levels that only A has must not be left out: a server that does not start would not be worse."""
    for block in range(8):
        for server, rates in (("nsd", ("1", "2")), ("zonda", ("1",))):
            for rate in rates:
                results.append(make_record(block, server=server, within={"rate": rate}, cpu_us_per_query=3.0 + block))
    assert cli.main(["compare", f"{results.folder}:nsd", f"{results.folder}:zonda"]) == compare.UNDETECTED
    printed = capsys.readouterr().out
    assert "too few starts E1 cpu_us_per_query 2: not measured in B" in printed
    assert "not worse      E1 cpu_us_per_query 1: +0.0%" in printed


def test_experiments_of_one_result_only_are_not_compared(results: Results, make_record: Make, tmp_path: Path) -> None:
    fill(results, make_record, {"nsd": 3.0})
    other = Results(tmp_path / "other")
    other.create({**results.manifest(), "experiments": {}})
    assert compare.compare(compare.Side(results.folder, "nsd"), compare.Side(other.folder, "nsd"), 0.02).metrics == []


def test_one_label_needs_one_server_on_the_other_side(results: Results, make_record: Make, tmp_path: Path) -> None:
    """Of several servers none must be compared silently."""
    other = Results(tmp_path / "other")
    other.create(results.manifest())
    fill(results, make_record, {"nsd": 3.0, "knot": 9.0})
    fill(other, make_record, {"zonda": 3.0})
    for sides in ((results.folder, f"{other.folder}:zonda"), (f"{other.folder}:zonda", results.folder)):
        with pytest.raises(LabError, match=r"has several servers: knot, nsd\n  help: name one, as in .*:knot"):
            compare.compare(*(compare.Side.parse(str(side)) for side in sides), 0.02)
    one = compare.compare(compare.Side(results.folder, "nsd"), compare.Side(other.folder, ""), 0.02)
    assert [line.effect.ratio for line in one.metrics if line.effect] == [pytest.approx(1.0, abs=0.01)]


def test_an_a_a_alarm_withholds_a_comparison_in_one_result(results: Results, make_record: Make) -> None:
    for block in range(8):
        wobble = 1 + 0.002 * (block % 3)
        for rate, again in (("1", 1.05), ("2", 1.0 + 0.001 * (block % 2))):
            for server, copy, factor in (("nsd", 0, 1.0), ("nsd", 1, again), ("knot", 0, 1.0), ("zonda", 0, 2.0)):
                cost = 3.0 * factor * wobble * (1 + 0.001 * (block % 5 - 2) * (copy + len(server)))
                record = make_record(block, copy, server=server, within={"rate": rate}, cpu_us_per_query=cost)
                results.append(record)
    done = compared(results, "knot")
    assert [(line.levels, line.decision) for line in done.metrics] == [
        ({"rate": "1"}, "withheld"),
        ({"rate": "2"}, "worse"),
    ]


@pytest.mark.parametrize(("margin", "decision"), [(0.02, "worse"), (0.005, "withheld")])
def test_an_alarm_is_a_difference_above_the_margin_of_the_comparison(
    results: Results, make_record: Make, margin: float, decision: str
) -> None:
    for block in range(8):
        for server, copy, factor in (("nsd", 0, 1.0), ("nsd", 1, 1.01), ("knot", 0, 1.0), ("zonda", 0, 2.0)):
            cost = 3.0 * factor * (1 + 0.0001 * (block % 5 - 2) * (copy + len(server)))
            results.append(make_record(block, copy, server=server, cpu_us_per_query=cost))
    done = compared(results, "knot", margin=margin)
    assert [line.decision for line in done.metrics] == [decision]


def test_shares_are_compared_in_points(results: Results, make_record: Make, capsys: pytest.CaptureFixture[str]) -> None:
    for block in range(8):
        for server, share in (("nsd", 1.0), ("zonda", 0.99)):
            results.append(make_record(block, server=server, answered_share=share - 1e-5 * (block % 3)))
    set_analysis(results, metric="answered_share", margin=0.02)
    assert cli.main(["compare", f"{results.folder}:nsd", f"{results.folder}:zonda"]) == compare.WORSE
    line = r"worse +E1 answered_share : -1\S* \(.*\) points, the same change in all 8 starts"
    assert re.search(line, capsys.readouterr().out)


@pytest.fixture
def recorded_twice(results: Results, make_record: Make, tmp_path: Path) -> Callable[[dict[str, Any]], list[str]]:
    """The folders of two results with the same values, the second with other members of its manifest."""

    def made(changed: dict[str, Any]) -> list[str]:
        other = Results(tmp_path / "other")
        other.create({**results.manifest(), **changed})
        for each in (results, other):
            fill(each, make_record, {"nsd": 3.0})
        return [str(results.folder), str(other.folder)]

    return made


@pytest.mark.parametrize(
    ("changed", "refused", "note"),
    [
        ({}, "", ""),
        ({"machine": {"cpu": "y", "cpus": 2}}, "E1.machine.cpu: x, then y", ""),
        ({"generator": {"name": "dnsperf"}}, "E1.generator: zonda-load, then dnsperf", ""),
        ({"experiments": described(seconds=1.0)}, "E1.settings.timing.seconds: 5.0, then 1.0", ""),
        ({"experiments": described(blocks=9)}, "", ""),
        ({"machine": {"cpu": "x", "cpus": 2, "kernel": "6.5"}}, "", "kernel: not set, then 6.5"),
        ({"generator": {"name": "zonda-load", "sha256": "ab"}}, "", "generator.sha256: not set, then ab"),
    ],
)
def test_results_of_other_conditions_are_compared_on_request_only(
    recorded_twice: Callable[[dict[str, Any]], list[str]],
    capsys: pytest.CaptureFixture[str],
    changed: dict[str, Any],
    refused: str,
    note: str,
) -> None:
    """Windows of another length or machine must not be compared silently, nor those of another kernel or build."""
    sides = recorded_twice(changed)
    assert cli.main(["compare", *sides]) == (cli.ERROR if refused else compare.UNDETECTED)
    plain = capsys.readouterr()
    assert refused in plain.err and ("--across-conditions" in plain.err) == bool(refused)
    assert cli.main(["compare", "--across-conditions", *sides]) == compare.UNDETECTED
    out = capsys.readouterr().out
    assert refused or plain.out == out
    assert (f"note: the conditions of A and B differ: {refused}\n" in out) == bool(refused)
    assert (f"note: a difference may also be that of kernel or load generator: {note}\n" in out) == bool(note)


def test_nothing_to_compare_is_status_2(results: Results, make_record: Make) -> None:
    fill(results, make_record, {"nsd": 3.0}, n=4)
    done = compared(results)
    assert done.status == compare.UNDETECTED and "no metric has enough starts on both sides" in done.summary
    with pytest.raises(LabError, match="has no server znoda\n  help: did you mean `zonda`"):
        compared(results, b="znoda")
    with pytest.raises(LabError, match="both sides are the same"):
        compared(results, b="nsd")
