from pathlib import Path

import numpy as np
import pytest
from conftest import Make

from zonda_lab.analysis import block_plan
from zonda_lab.analysis.analysis import analyse_metric
from zonda_lab.analysis.block_plan import Prospect
from zonda_lab.command import cli
from zonda_lab.errors import LabError
from zonda_lab.experiments import catalogue
from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.report.size import more_time
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord

SPEC = AnalysisSpec(metric="cpu_us_per_query", compare="server.name", baseline="nsd")


def drifting(make: Make, sigma: float, blocks: int = 400) -> list[WindowRecord]:
    """The machine drifts by 30 %; each start has noise of `sigma`."""
    draw, records = np.random.default_rng(2), []
    for block in range(blocks):
        machine = draw.lognormal(0, 0.3)
        for server, copy in (("nsd", 0), ("nsd", 1), ("knot", 0)):
            cost = 3.0 * machine * draw.lognormal(0, sigma)
            records.append(make(block, copy, server=server, cpu_us_per_query=cost))
    return records


def test_the_variation_is_that_of_the_a_a_pairs(make_record: Make) -> None:
    """Of differences, so sqrt(2) times that of a start, and without the drift."""
    records = drifting(make_record, 0.03)
    assert block_plan.sigma_of(records, SPEC) == pytest.approx(0.03 * 2**0.5, rel=0.1)
    without = [record for record in records if not record.copy]
    assert block_plan.sigma_of(without, SPEC) == pytest.approx(0.03 * 2**0.5, rel=0.1)
    assert block_plan.sigma_of(records[:6], SPEC) is None


def test_plan_and_report_state_the_same_blocks(tmp_path: Path, make_record: Make) -> None:
    """E33 compares one to six settings under each condition: `plan` must not count all 21 of them."""
    (path,) = catalogue.find("E33")
    experiment, draw = catalogue.load(path), np.random.default_rng(3)
    analysis = experiment.definition.analysis
    records = [
        make_record(
            block,
            copy,
            experiment="E33",
            server="zonda",
            condition=condition,
            setting=setting,
            processor_us_per_query=9.0 * draw.lognormal(0, 0.1),
        )
        for block in range(4)
        for condition, settings in (("2,000 local ports", ("more ports", "tw_reuse 1")), ("UDP during a pause", ()))
        for setting, copy in (("default", 0), ("default", 1), *((each, 0) for each in settings))
    ]
    results = Results(tmp_path / "earlier")
    results.create({"experiments": {}, "servers": {}})
    for record in records:
        results.append(record)
    (prospect,) = block_plan.prospects([experiment], [results.folder], lambda _: 1.0)
    assert prospect.comparisons == 2
    said = more_time(records, analysis, analyse_metric(records, analysis.metric, analysis))
    assert said == f"15.0% would need {prospect.needed} blocks on average"


def test_blocks_are_those_the_effect_needs_within_the_time() -> None:
    prospect = Prospect("E1", 0.02, 0.03, 1, 60.0)
    assert (prospect.plan(7200).blocks, prospect.plan(7200).needed) == (21, 21)
    short = prospect.plan(600)
    assert (short.blocks, short.needed, short.seconds) == (10, 21, 600.0)
    assert short.mde > 0.02 and "2.0% needs 21" in short.summary
    assert Prospect("E1", 0.02, None, 1, 60.0).plan(7200).blocks == block_plan.PILOT_BLOCKS


def test_the_longest_experiments_are_shortened_until_all_fit() -> None:
    plans = block_plan.within([Prospect("E1", 0.01, 0.05, 1, 60.0), Prospect("E2", 0.02, 0.03, 1, 10.0)], 36_000, 3600)
    assert sum(plan.seconds for plan in plans) <= 3600
    assert plans[1].blocks == 21 and plans[0].blocks < (plans[0].needed or 0)


def test_plan_prints_blocks_and_the_duration(
    tmp_path: Path, make_record: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = Results(tmp_path / "earlier")
    earlier.create({"experiments": {}, "servers": {}})
    for record in drifting(make_record, 0.03, 5):
        record.experiment, record.within = "E27", {"queries.nxdomain": "0.0"}
        earlier.append(record)
    arguments = ["plan", "E27", "--from", str(earlier.folder), "--servers", "echo,nsd", "--set", "timing.seconds=1"]
    assert cli.main([*arguments, "--hours", "100", "--each", "100"]) in (0, 1)
    listed = capsys.readouterr().out
    assert "E27" in listed and "blocks detect" in listed and "1 experiments, about" in listed
    with pytest.raises(LabError, match="contains no results"):
        block_plan.kept_folders(tmp_path / "absent")
