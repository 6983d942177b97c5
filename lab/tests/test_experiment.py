import json
import re
import typing
from pathlib import Path

import pytest

from zonda_lab.errors import LabError
from zonda_lab.experiments import block_design, catalogue
from zonda_lab.experiments.definition import ProcedureName
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.procedures import PROCEDURES, procedure_of
from zonda_lab.report.plots import PLOTS
from zonda_lab.run import runner
from zonda_lab.run.duration_estimate import estimate_s
from zonda_lab.servers import ADAPTERS

FILES = catalogue.files()
SMALL = """
id = "T1"
name = "small"
title = "A test"
procedure = "queries"
[timing]
blocks = 4
[factors]
"server.name" = ["nsd", "knot", "echo"]
[factors.tuning.default]
[factors.tuning.changed]
rig = { sysctl = { "net.ipv4.tcp_sack" = 0 } }
[within]
"traffic.rate" = [100, 200]
[analysis]
metric = "cpu_us_per_query"
compare = "tuning"
baseline = "default"
[quick.levels]
"server.name" = ["nsd"]
tuning = ["default"]
[quick.set.timing]
blocks = 1
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def changed(path: Path, old: str, new: str) -> Path:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return path


def test_the_catalogue_is_complete() -> None:
    assert [int(path.stem[1:3]) for path in FILES] == list(range(1, 36))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
def test_every_experiment_is_complete(path: Path, quick: bool) -> None:
    loaded = catalogue.load(path, quick)
    document = loaded.definition
    assert document.id == f"E{int(path.stem[1:3])}"
    assert path.stem[4:] == document.name
    assert document.question and document.why and document.source and document.expect
    procedures = {document.procedure, *(each.procedure for each in document.combinations if each.procedure)}
    assert procedures <= PROCEDURES.keys()
    claimed = [claim.metric for claim in document.claims] + [row.metric for row in document.published if row.metric]
    asked = {document.analysis.metric, *document.analysis.metrics, *claimed}
    assert asked <= set().union(*(PROCEDURES[name].all_metrics for name in procedures))
    assert set(document.analysis.plots) <= set(PLOTS)
    assert set(loaded.factors[0].levels) <= set(ADAPTERS)
    if document.id != "E14":  # with BIND and NSD only, to bound its duration
        assert "zonda" in catalogue.load(path).factors[0].levels
    if document.analysis.baseline:
        compared = loaded.factor(document.analysis.compare)
        assert compared is not None and document.analysis.baseline in compared.levels


def test_all_quick_forms_take_at_most_20_minutes() -> None:
    small = [catalogue.load(path, quick=True) for path in FILES]
    assert sum(estimate_s(block_design.plan_starts(each, 1)) for each in small) < 1200


def estimated(word: str, *changes: str) -> dict[str, float]:
    """Seconds of a start in the small form, by its treatment."""
    starts = block_design.plan_starts(catalogue.load(catalogue.find(word)[0], quick=True, changes=changes), 1)
    return {start.treatment.label: estimate_s([start]) for start in starts}


def test_the_estimate_includes_waiting_times() -> None:
    ports = estimated("E14")
    assert ports["bind, default"] > ports["bind, more ports"] + 7  # until `finish-s`
    assert estimated("E2", "traffic.timeout-ms=1000")["nsd"] > estimated("E2")["nsd"] + 2  # lost queries
    assert estimated("E3", "timing.retries=0")["nsd, 1 worker"] < estimated("E3")["nsd, 1 worker"]  # repeats


def test_levels_are_merged_over_the_settings(small: Path) -> None:
    loaded = catalogue.load(small)
    tuning = loaded.factor("tuning")
    assert tuning is not None
    assert loaded.settings(tuning.levels["changed"]).rig.sysctl == {"net.ipv4.tcp_sack": 0}
    assert loaded.settings(tuning.levels["default"]).rig.sysctl == {}
    assert loaded.settings({"traffic": {"rate": 200}}).traffic.rate == 200.0


def test_the_quick_form_takes_fewer_levels_and_other_settings(small: Path) -> None:
    quick = catalogue.load(small, quick=True)
    assert [list(factor.levels) for factor in quick.factors] == [["nsd"], ["default"]]
    assert quick.settings().timing.blocks == 1


def test_servers_and_settings_from_the_command_line(small: Path) -> None:
    loaded = catalogue.load(small, servers=["bind"], changes=["timing.blocks=7", "traffic.transport=tcp"])
    assert list(loaded.factors[0].levels) == ["bind"]
    assert (loaded.settings().timing.blocks, loaded.settings().traffic.transport) == (7, "tcp")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"traffic.rate"', '"traffic.rat"', "unknown key `rat`\n  help: did you mean `rate`?"),
        ('procedure = "queries"', 'procedure = "peek"', "procedure is 'peek'\n  help: did you mean `peak`?"),
        ('procedure = "queries"', 'procedure = "x"', "procedure is 'x'\n  help: known: queries, queries-alone, peak, "),
        (
            "[quick.levels]",
            '[[combinations]]\nprocedure="pul"\n[quick.levels]',
            "procedure is 'pul'\n  help: did you mean `pull`?",
        ),
        ("[timing]", "[timng]", "unknown key `timng`\n  help: did you mean `timing`?"),
        (
            '"cpu_us_per_query"',
            '"cpu_per_query"',
            "no metric `cpu_per_query`\n  help: did you mean `cpu_us_per_query`?",
        ),
        (
            'compare = "tuning"',
            'compare = "tunning"',
            "analysis.compare is not a factor\n  help: did you mean `tuning`?",
        ),
        (
            "[quick.levels]",
            '[[claims]]\nsays="x"\npublished="y"\nmetric="lost"\nalong="tuning"\norder=["chnaged"]\n[quick.levels]',
            "`x` orders `chnaged`, which is no level\n  help: did you mean `changed`?",
        ),
        (
            "[quick.levels]",
            '[[claims]]\nsays="x"\npublished="y"\nmetric="lost"\nshape="flat"\n[quick.levels]',
            "the shape of `x` has no `along`",
        ),
        ("blocks = 4", "blocks = four", "Invalid value"),
        ("blocks = 4", 'blocks = "four"', "timing: blocks must be an integer, is 'four'"),
        (
            "[quick.levels]",
            '[[combinations]]\nof={tuning=["chnaged"]}\n[quick.levels]',
            "combination of `chnaged`, which is no level\n  help: did you mean `changed`?",
        ),
        ("[quick.levels]", '[[combinations]]\nof={tunning=["default"]}\n[quick.levels]', "did you mean `tuning`?"),
        (
            'tuning = ["default"]',
            'tuning = ["defualt"]',
            "factor `tuning` has no level `defualt`\n  help: did you mean `default`?",
        ),
    ],
)
def test_an_invalid_file_is_one_error_message(small: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(LabError) as caught:
        catalogue.load(changed(small, old, new), quick=True)
    assert message in str(caught.value)
    assert "small.toml" in str(caught.value)


def test_a_file_that_is_not_text_is_one_error_message(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(LabError, match=r"binary\.toml: cannot read the experiment"):
        catalogue.load(binary)
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with pytest.raises(LabError, match=r"folder\.toml: cannot read the experiment"):
        catalogue.load(folder)


def test_experiments_are_found_by_number_name_and_path(small: Path) -> None:
    assert catalogue.find("E1") == catalogue.find("response-rate") == [FILES[0]]
    assert catalogue.find(str(small)) == [small]
    assert len(catalogue.find("all")) == 35
    with pytest.raises(LabError, match="did you mean `response-rate`"):
        catalogue.find("respons-rate")


def test_a_plan_has_randomised_complete_blocks_with_the_baseline_twice(small: Path) -> None:
    starts = block_design.plan_starts(catalogue.load(small), seed=1)
    treatments = 3 * 2 + 3  # three servers, two tunings, the default again for each server
    assert len(starts) == 4 * treatments
    orders = []
    for block in range(4):
        mine = [start for start in starts if start.block == block]
        assert len({start.key for start in mine}) == treatments
        assert sum(start.treatment.copy for start in mine) == 3
        assert all(start.treatment.levels["tuning"] == "default" for start in mine if start.treatment.copy)
        orders.append([start.key.split("/", 2)[2] for start in mine])
    assert len({tuple(order) for order in orders}) > 1
    assert [start.key for start in block_design.plan_starts(catalogue.load(small), seed=1)] == [
        start.key for start in starts
    ]
    assert [start.key for start in block_design.plan_starts(catalogue.load(small), seed=2)] != [
        start.key for start in starts
    ]


def test_only_combinations_are_measured_each_by_its_procedure(small: Path) -> None:
    combined = """
[[combinations]]
of = { "server.name" = ["nsd"] }
[[combinations]]
procedure = "startup"
of = { "server.name" = ["knot"], tuning = ["default"] }
[quick.levels]"""
    experiment = catalogue.load(changed(small, "[quick.levels]", combined))
    starts = block_design.plan_starts(experiment, seed=1)
    assert len(starts) == 4 * (2 + 1 + 1 + 1)  # each block: both tunings of nsd, one of knot, the baseline again
    for start in starts:
        is_knot = start.treatment.levels["server.name"] == "knot"
        assert start.treatment.levels["server.name"] != "echo"
        assert not is_knot or start.treatment.levels["tuning"] == "default"
        assert procedure_of(start) is PROCEDURES["startup" if is_knot else "queries"]
    described = json.loads(json.dumps(runner.described(experiment)))
    assert block_design.planned_keys(described) == {start.key for start in starts}


def test_servers_that_leave_a_combination_without_one_are_an_error() -> None:
    """`run E33 --servers nsd` must not plan a few of the treatments without saying which it leaves out."""
    (path,) = catalogue.find("E33")
    with pytest.raises(LabError, match=r"^E33: some combinations are measured with zonda only\n  help: add zonda to"):
        catalogue.load(path, servers=["nsd"])
    assert len(catalogue.load(path, servers=["nsd", "zonda"]).factors[0].levels) == 2
    assert catalogue.load(path, quick=True, servers=["zonda"])  # combinations of other conditions are left out


def test_every_metric_has_a_description_and_is_declared_by_a_procedure() -> None:
    assert all(metric.title for metric in METRICS.values())
    assert set().union(*(procedure.all_metrics for procedure in PROCEDURES.values())) == set(METRICS)


def test_an_experiment_may_name_every_procedure() -> None:
    assert set(typing.get_args(ProcedureName)) == set(PROCEDURES)


def test_memory_is_titled_in_the_unit_it_has() -> None:
    """It is in KiB / 1024, which is not MB; and the sums over processes count shared pages several times."""
    for name in ("rss_mb", "pss_mb", "peak_mb"):
        assert METRICS[name].unit == "MiB" and "shared pages" in METRICS[name].title


def test_cpu_time_after_the_load_is_a_metric_of_its_own() -> None:
    """It must not be recorded as the CPU time of the window (E19)."""
    found = catalogue.load(catalogue.find("E19")[0]).definition
    assert "server_cpu_after" in found.analysis.metrics and "server_cpu" not in found.analysis.metrics
    assert "server_cpu_after" in PROCEDURES[found.procedure].metrics


def test_every_search_for_peaks_shows_answers_per_cpu_second() -> None:
    """They compare the servers where the rig bounds the peaks, so they must not only be measured (E4)."""
    searches = [found for path in FILES if (found := catalogue.load(path).definition).procedure == "peak"]
    assert [found.id for found in searches] == ["E2", "E4"]
    assert all("answers_per_cpu_s" in found.analysis.metrics for found in searches)


def test_a_factor_compared_within_starts_has_its_baseline_twice_in_each_start() -> None:
    """E24 compares windows of one start, and needs an A/A pair in it."""
    for start in block_design.plan_starts(catalogue.load(catalogue.find("E24")[0]), seed=1):
        assert start.treatment.copy == 0
        again = [inner.levels for inner in start.within if inner.copy]
        assert again == [{"meanwhile": "nothing"}] and len(start.within) == 4 + 1
    between = block_design.plan_starts(catalogue.load(catalogue.find("E1")[0]), seed=1)
    assert not any(inner.copy for start in between for inner in start.within)


def test_make_lab_needs_no_capture() -> None:
    """A newcomer does not have the capture of E21."""
    text = (Path(__file__).parents[1] / "lab.mk").read_text()
    (default,) = re.findall(r"^EXPERIMENTS \?= (.+)$", text, re.MULTILINE)
    for word in default.split():
        (path,) = catalogue.find(word)
        experiment = catalogue.load(path, quick=True)
        assert not experiment.settings().traffic.capture and not experiment.settings().zones.trace, word
