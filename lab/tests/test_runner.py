"""What the runner records of a start. The harness is a stand-in, with the telemetry of an idle machine."""

import contextlib
import dataclasses
import functools
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import small_experiment
from test_validity import result, telemetry

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import Start, Treatment, plan_starts
from zonda_lab.experiments.catalogue import load
from zonda_lab.experiments.definition import RigSpec, Settings
from zonda_lab.load.result import LoadResult
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.measurement.environment import Environment
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.window import Window
from zonda_lab.procedures import PROCEDURES
from zonda_lab.results.folder import Results
from zonda_lab.run import rig_limits, runner
from zonda_lab.run.progress import Progress
from zonda_lab.run.rig_limits import Limits, rig_key, traffic_key
from zonda_lab.run.runner import Runner, StartRecorder
from zonda_lab.telemetry.series import Telemetry


class StandIn:
    """A harness whose machine is idle, except during the spans in `busy`."""

    def __init__(self) -> None:
        self.network = SimpleNamespace(notes=[], is_isolated=False, server_cpus=[0], load_cpus=[1])
        self.observer = SimpleNamespace(observed=self.observed, elsewhere=lambda _: {}, file=Path("/no/such/file"))
        self.busy: list[Span] = []

    def observed(self, span: Span) -> Telemetry:
        return telemetry(busy=0.9 if any(span is busy for busy in self.busy) else 0.4)


def span() -> Span:
    return Span(began=100.0, ended=102.0, server_cpu_s=0.8, own_cpu_s=1.6)


Planned = Callable[..., tuple[Runner, Start]]


@pytest.fixture
def planned(tmp_path: Path, zonda_load: ZondaLoad) -> Planned:
    """The runner and the first start of a small experiment with these lines in place of others."""

    def made(procedure: str = "queries", traffic: str = "", **options: Any) -> tuple[Runner, Start]:
        path = tmp_path / "t.toml"
        text = small_experiment(**options).replace("[traffic]\n", f"[traffic]\n{traffic}\n")
        path.write_text(f'procedure = "{procedure}"\n{text}')
        results = Results(tmp_path / "results")
        results.create({"experiments": {}, "servers": {}})
        return Runner(results, {}, zonda_load, Progress(1.0, io.StringIO())), plan_starts(load(path), 1)[0]

    return made


@pytest.fixture
def opened(planned: Planned) -> Callable[..., tuple[StartRecorder, StandIn]]:
    """The recorder of such a start, whose harness is running."""

    def made(procedure: str = "queries", traffic: str = "", **options: Any) -> tuple[StartRecorder, StandIn]:
        recorder, harness = StartRecorder(*planned(procedure, traffic, **options), 0), StandIn()
        recorder.open(harness)  # type: ignore[arg-type]
        return recorder, harness

    return made


def test_a_program_that_is_built_again_ends_the_run(planned: Planned, tmp_path: Path, monkeypatch: Any) -> None:
    """A record must not name a program that was not measured, by its digest at the begin of the run."""
    planner, start = planned()
    program = tmp_path / "nsd"
    program.write_text("one")
    server: Any = SimpleNamespace(program=program, adapter=SimpleNamespace(name="nsd"), version="1")
    environment, generator = Environment(), planner.generator
    described = runner.manifest([], {"nsd": server}, {}, generator, {}, environment)
    changed = functools.partial(runner.changed_program, described, {"nsd": server}, generator, environment)
    measured = Runner(planner.results, {}, generator, Progress(1.0, io.StringIO()), changed=changed)

    def starting(start: Start) -> None:
        recorder = StartRecorder(measured, start, 0)
        recorder.skip("nothing")
        recorder.finish()

    monkeypatch.setattr(measured, "start", starting)
    measured.run([start])
    assert len(measured.results.records()) == 1
    measured.results.remove_start(start.key)
    program.write_text("two")
    with pytest.raises(LabError, match="nsd changed during the run"):
        measured.run([start])
    assert measured.results.records() == []
    program.unlink()
    with pytest.raises(LabError, match="a program of this run is gone"):
        measured.run([start])


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_a_busy_generator_invalidates_the_latencies_of_either_loop(opened: Any, loop: str) -> None:
    """A closed loop of a generator that is 95 % busy must not count for connect_mean_us (E23)."""
    recorder, _ = opened(traffic=f'loop = "{loop}"')
    recorder.add(Window(span(), {"receive_buffer_kb": 4096.0}, result=result(busy=0.95), load_s=2.0))
    record = recorder.records[0]
    assert record.valid, record.reasons
    assert record.latency_reasons == ["the generator was 95% busy: no headroom for latencies"]


def test_what_is_measured_after_the_window_must_not_be_disturbed_either(opened: Any) -> None:
    """Restart and recovery of TCP are timed after the span of the window, so the machine must be checked there, too."""
    recorder, harness = opened("startup", metric="all_zones_s")
    quiet, busy = span(), span()
    harness.busy.append(busy)
    recorder.add(Window(span(), {"all_zones_s": 1.0}, later={"restart": quiet}))
    recorder.add(Window(span(), {"all_zones_s": 1.0}, later={"restart": busy}))
    first, second = recorder.records
    assert first.valid and len(second.reasons) == 1
    assert second.reasons[0].startswith("restart: other programs used 1.0")
    assert second.disturbed


@pytest.mark.parametrize(("rps_cpus", "valid"), [([1], True), ([], False)])
def test_softirqs_that_rps_steers_do_not_disturb_what_is_measured_after_the_window(
    opened: Any, monkeypatch: pytest.MonkeyPatch, rps_cpus: list[int], valid: bool
) -> None:
    recorder, harness = opened("startup", metric="all_zones_s")
    harness.observer.observed = lambda _: telemetry(softirq=0.15)
    monkeypatch.setattr(recorder, "_settings_of", lambda _: Settings(rig=RigSpec(rps_cpus=rps_cpus)))
    later = Span(began=100.0, ended=102.0, own_cpu_s=1.0)
    recorder.add(Window(span(), {"all_zones_s": 1.0}, later={"restart": later}))
    assert recorder.records[0].reasons == ([] if valid else ["restart: other programs used 0.30 CPUs"])


def test_a_start_of_milliseconds_is_checked_over_the_samples_around_it(opened: Any) -> None:
    recorder, harness = opened("startup", metric="all_zones_s")
    brief = Span(began=100.0, ended=100.001, own_cpu_s=1.6)
    harness.observer.observed = lambda seen: telemetry(io=0.01 if seen is brief else 0.0)
    recorder.add(Window(span(), {"all_zones_s": 1.0}, later={"recovery": brief}))
    assert recorder.records[0].reasons == []


@pytest.mark.parametrize(("procedure", "checked"), [("peak", True), ("queries", True), ("startup", False)])
def test_the_receive_buffer_is_checked_wherever_load_is_sent(opened: Any, procedure: str, checked: bool) -> None:
    """Peak searches have no result of one load, but must be checked: small buffers mean low peaks."""
    recorder, _ = opened(procedure, metric="server_cpu")
    recorder.add(Window(span(), {"receive_buffer_kb": 208.0}))
    expected = ["the server's receive buffer is 208 KiB, that of the others 4096 KiB"]
    assert recorder.records[0].reasons == (expected if checked else [])


@pytest.mark.parametrize(("failures", "valid"), [(0, [True]), (1, [False, True]), (2, [False, False])])
def test_every_attempt_of_a_start_is_recorded(
    planned: Planned, monkeypatch: pytest.MonkeyPatch, failures: int, valid: list[bool]
) -> None:
    """If only the last is, 20 valid windows of 25 look like 20 of 20."""
    run, start = planned("startup", metric="all_zones_s", retries=1)
    monkeypatch.setattr(runner, "Harness", lambda *_: contextlib.nullcontext(StandIn()))
    monkeypatch.setattr(run.limits, "prepare", lambda _: None)

    def procedure(_: object, recorder: StartRecorder) -> None:
        recorder.add(Window(span(), {"all_zones_s": 1.0}))
        recorder.add(Window(span(), {"all_zones_s": 1.0}, died=recorder.attempt < failures))

    changed = dataclasses.replace(PROCEDURES["startup"], run=procedure)
    monkeypatch.setitem(PROCEDURES, "startup", changed)
    run.start(start)
    records = run.results.records()
    assert [record.attempt for record in records] == [n for n in range(len(valid)) for _ in range(2)]
    assert [record.valid for record in records[1::2]] == valid
    repeated = records[:-2]
    assert all(record.reasons[-1] == runner.REPEATED and not record.disturbed for record in repeated)
    assert [record.detail["last"] for record in records] == [False] * (len(records) - 1) + [True]


def test_a_start_that_fails_is_recorded_before_it_is_repeated(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, start = planned("startup", metric="all_zones_s", retries=1)
    monkeypatch.setattr(run.limits, "prepare", lambda _: None)

    def failing(*_: object) -> None:
        raise LabError("it broke")

    monkeypatch.setattr(runner, "Harness", failing)
    run.start(start)
    assert [record.reasons for record in run.results.records()] == [["it broke", runner.REPEATED], ["it broke"]]


def test_the_second_baseline_of_a_start_is_a_copy(planned: Planned) -> None:
    run, start = planned()
    again = dataclasses.replace(start, within=(Treatment({"load": "low"}, ()), Treatment({"load": "low"}, (), copy=1)))
    recorder = StartRecorder(run, again, 0)
    recorder.open(StandIn())  # type: ignore[arg-type]
    for each in recorder.windows:
        recorder.add(Window(span(), {"receive_buffer_kb": 4096.0}).measured_as(each))
    recorder.skip("cannot", recorder.windows[1])
    assert [record.copy for record in recorder.records] == [0, 1, 1]
    assert all(record.within == {"load": "low"} for record in recorder.records)


def test_rates_that_are_shares_of_echo_are_equal_at_all_levels(
    tmp_path: Path, zonda_load: ZondaLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query costs less at a higher rate: the share must not be one of echo in each placement (E20)."""
    path = tmp_path / "t.toml"
    text = small_experiment(rate='"25% of echo"', baseline="one").replace(
        "other = {}", "other = { rig = {rps-cpus=[0]} }"
    )
    path.write_text(text)
    results = Results(tmp_path / "results")
    results.create({})
    installed: Any = {"echo": None}
    run = Runner(results, installed, zonda_load, Progress(1.0, io.StringIO()))
    rigs: list[list[int]] = []

    def measured(windows: list[Settings], _: bool) -> None:
        """An echo server that answers less when packets are handled on its core."""
        for settings in windows:
            rigs.append(settings.rig.rps_cpus)
            qps = 100.0 if settings.rig.rps_cpus else 400.0
            limits = Limits(qps, qps, "", {}, windows={traffic_key(settings): {}})
            run.limits._latest[rig_key(settings)] = limits
            run.limits._first.setdefault(rig_key(settings), {"echo_qps": qps})

    monkeypatch.setattr(run.limits, "_measure", measured)
    starts = {start.treatment.label: start for start in plan_starts(load(path), 1)}
    for label in ("echo, other", "echo, one"):
        run.limits.prepare(starts[label])
        assert run.limits.echo_qps(starts[label].settings_of(starts[label].within[0])) == 400.0
    assert rigs == [[], [0]], "the baseline's rig first, then that of the start"


def test_the_limits_of_the_rig_are_measured_again_after_an_hour(
    tmp_path: Path, zonda_load: ZondaLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates that are shares of echo stay those of the first measurement."""
    (tmp_path / "t.toml").write_text(small_experiment("nsd", rate='"25% of echo"'))
    results = Results(tmp_path / "results")
    results.create({})
    capacities = iter([400.0, 500.0])
    harness: Any = StandIn()
    harness.start_ready_server = lambda: None
    harness.load = SimpleNamespace(closed_loop=lambda *_: LoadResult(0, int(next(capacities)), 1.0))
    monkeypatch.setattr(rig_limits, "Harness", lambda *_: contextlib.nullcontext(harness))
    monkeypatch.setattr(rig_limits, "measure_window", lambda *_: Window(span(), {}))
    limits = rig_limits.RigLimits(results, cast(Any, {"echo": None}), zonda_load, cast(Any, None))
    start = plan_starts(load(tmp_path / "t.toml"), 1)[0]
    settings = start.settings_of(start.within[0])
    found = []
    for waited_s in (0.0, rig_limits.VALID_S / 2, rig_limits.VALID_S / 2):
        for known in limits._latest.values():
            known.measured_at -= waited_s
        limits.prepare(start)
        found.append(limits.describe(settings)[0]["capacity_qps"])
    assert found == [400.0, 400.0, 500.0] and limits.echo_qps(settings) == 400.0
