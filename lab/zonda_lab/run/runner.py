"""Runs the starts of experiments, validates and records every window, and resumes interrupted runs."""

import datetime
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zonda_lab import __version__
from zonda_lab.errors import HostLostError, LabError, UnsupportedError
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import Experiment, Settings
from zonda_lab.load import latency_histogram
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.measurement import validity
from zonda_lab.measurement.environment import Environment
from zonda_lab.measurement.harness import Harness, MakeNetwork
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.window import PlannedWindow, Window, counters, machine_metrics, processor_metrics
from zonda_lab.procedures import procedure_of
from zonda_lab.results.folder import FORMAT, Results
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.rig import machine_info
from zonda_lab.run.duration_estimate import start_s
from zonda_lab.run.progress import Progress
from zonda_lab.run.rig_limits import RigLimits
from zonda_lab.servers import InstalledServer
from zonda_lab.telemetry.series import saturated

Changed = Callable[[], str]  # why the programs of a run are not the same any more; empty if they are
REPEATED = "a window of this start was invalid, so the start was repeated"


class Runner:
    """Runs planned starts and appends their windows to the results."""

    def __init__(
        self,
        results: Results,
        installed: Mapping[str, InstalledServer],
        generator: LoadGenerator,
        progress: Progress,
        network: MakeNetwork | None = None,
        changed: Changed = str,
    ) -> None:
        self.results, self.installed, self.generator, self.progress = results, installed, generator, progress
        self.network = network or Environment().network
        self.limits = RigLimits(results, installed, generator, self.network)
        self._changed = changed
        self._impossible: dict[str, str] = {}

    def run(self, starts: Sequence[Start]) -> None:
        """Runs the starts that the results do not contain yet.

        Raises LabError if a program was built again meanwhile; the windows of that start are removed.
        """
        self.results.remove_partial_line()
        finished = self.results.finished()
        for start in starts:
            length = start_s(start) if start.settings.server.name in self.installed else 0.0
            self.progress.begin(f"{start.experiment.id} {start.treatment.label}", length)
            if start.key not in finished:
                self.results.remove_start(start.key)
                self.start(start)
                if changed := self._changed():
                    self.results.remove_start(start.key)
                    raise LabError(changed, "leave the programs of a run alone; install that program again and resume")
            self.progress.end()

    def start(self, start: Start) -> None:
        """Runs one start; records an unsupported treatment as skipped and a failure as invalid."""
        kind = f"{start.experiment.id}/{start.treatment.levels}"
        procedure = procedure_of(start)
        attempts = 1 if procedure.retries_itself else start.settings.timing.retries + 1
        for attempt in range(attempts):
            recorder = StartRecorder(self, start, attempt)
            try:
                if kind in self._impossible:
                    raise UnsupportedError(self._impossible[kind])
                self.limits.prepare(start)
                given = (self.installed, self.generator, self.network, self.limits.echo_qps)
                with Harness(start.settings, *given) as harness:
                    recorder.open(harness)
                    procedure.run(harness, recorder)
                    recorder.close()
            except UnsupportedError as error:
                self._impossible[kind] = str(error)
                recorder.skip(str(error))
                break
            except HostLostError:
                raise  # resuming the run repeats this start
            except LabError as error:
                recorder.fail(str(error))
            if recorder.valid or attempt + 1 == attempts:
                break
            recorder.finish(repeated=True)
        recorder.finish()


class StartRecorder:
    """Collects the windows of one start and appends them to the results when it ends, with its telemetry."""

    harness: Harness  # once it is running

    def __init__(self, runner: Runner, start: Start, attempt: int) -> None:
        self.runner, self.start, self.attempt = runner, start, attempt
        self.records: list[WindowRecord] = []
        self.files: dict[str, str] = {}

    @property
    def windows(self) -> list[PlannedWindow]:
        """The planned windows, in their order."""
        return [PlannedWindow(each.levels, self.start.settings_of(each), each.copy) for each in self.start.within]

    @property
    def valid(self) -> bool:
        """Whether every window is valid for the primary metric."""
        return all(record.skipped or self._is_valid_for_primary(record) for record in self.records)

    def open(self, harness: Harness) -> None:
        """Called when the harness is running."""
        self.harness = harness

    def add(self, window: Window, attempt: int = 0) -> bool:
        """Validates and records a window; False if it is not valid for the primary metric and worth repeating."""
        telemetry, settings = self.harness.observer.observed(window.span), self._settings_of(window)
        network = self.harness.network
        checked = validity.ValidityInput(window, telemetry, settings, network, receives_load=self._uses_echo)
        reasons = window.invalid + validity.reasons(checked) + self._other_machines(window.span)
        reasons += [f"{name}: {why}" for name, span in window.later.items() for why in self._machines(span, settings)]
        record = self._record(attempt + self.attempt)
        machine = machine_metrics(telemetry, window.span, window.load_s)
        machine |= processor_metrics(telemetry, network, window)
        record.within, record.metrics = window.within, {**machine, **window.metrics}
        record.copy = max(record.copy, window.copy)
        record.window = [window.span.began, window.span.ended]
        record.valid, record.reasons, record.latency_reasons = not reasons, reasons, validity.latency_reasons(checked)
        record.notes = [*network.notes, *window.notes]
        record.predictions, record.detail = window.predictions, window.detail
        record.detail["counters"] = counters(telemetry)
        self._add_limits(record, window, settings)
        record.saturated = [[round(at, 2), what] for at, what in saturated(telemetry)]
        record.files = self._histograms(window, len(self.records))
        self.records.append(record)
        self.runner.progress.window(record)
        return self._is_valid_for_primary(record)

    def _settings_of(self, window: Window) -> Settings:
        """The settings of the window, or of the start if its levels are not planned ones."""
        return next((each.settings for each in self.windows if each.levels == window.within), self.start.settings)

    def _add_limits(self, record: WindowRecord, window: Window, settings: Settings) -> None:
        """The limits of the rig for this traffic, and which metrics they bound."""
        record.bounds, record.rig_bound = window.bounds, window.rig_bound
        if self._uses_echo:
            record.echo, limits = self.runner.limits.describe(settings)
            record.metrics |= {name: limits[name] for name in ("echo_qps", "generator_qps") if name in limits}
            record.detail |= {"limits": limits} if limits else {}

    def close(self) -> None:
        """Stores the telemetry of the start; called before the harness closes."""
        if self.harness.observer.file.exists():
            name = f"telemetry/{self._stem}.jsonl"
            self.files["telemetry"] = self.runner.results.store_file(self.harness.observer.file, name)

    def skip(self, why: str, planned: PlannedWindow | None = None) -> None:
        """Records that the treatment, or one window of it, is not supported."""
        record = self._record(0)
        record.skipped, record.valid = why, False
        if planned is not None:
            record.within, record.copy = planned.levels, max(record.copy, planned.copy)
        self.records.append(record)
        self.runner.progress.window(record)

    def fail(self, why: str) -> None:
        """Records that the start failed; windows measured before are kept."""
        record = self._record(self.attempt)
        record.valid, record.reasons = False, [why]
        self.records.append(record)
        self.runner.progress.window(record)

    def finish(self, repeated: bool = False) -> None:
        """Appends the windows to the results; the last one marks the start as complete.

        If the start is repeated, none of its windows counts: each treatment has one start in a block.
        """
        for record in self.records:
            if repeated:
                record.valid = False
                record.reasons.append(REPEATED)
            record.files |= self.files
            record.detail["last"] = not repeated and record is self.records[-1]
            self.runner.results.append(record)

    def _is_valid_for_primary(self, record: WindowRecord) -> bool:
        return record.counts_for(self.start.experiment.definition.analysis.metric)

    @property
    def _stem(self) -> str:
        return f"{self.start.experiment.id}-{hashlib.sha256(self.start.key.encode()).hexdigest()[:10]}-{self.attempt}"

    @property
    def _uses_echo(self) -> bool:
        return procedure_of(self.start).uses_echo

    def _machines(self, span: Span, settings: Settings) -> list[str]:
        """Why any machine was not fit for what was measured in that time."""
        telemetry = self.harness.observer.observed(span)
        seconds = max(span.seconds, telemetry.seconds)  # of milliseconds, the samples at its edges cover more
        cores = validity.own_cores(telemetry, settings.rig, span.own_cpu_s, seconds)
        return validity.machine_reasons(telemetry, seconds, cores) + self._other_machines(span)

    def _other_machines(self, span: Span) -> list[str]:
        """Why machines other than the server's make the window invalid."""
        observed = self.harness.observer.elsewhere(span)
        cores = {name: span.elsewhere_cpu_s.get(name, 0.0) / span.seconds for name in observed}
        return [
            f"{name}: {reason}"
            for name, telemetry in observed.items()
            for reason in validity.machine_reasons(telemetry, span.seconds, cores[name])
        ]

    def _record(self, attempt: int) -> WindowRecord:
        label = self.start.settings.server.name
        server = self.runner.installed.get(label)
        programs = {"kind": server.adapter.name, "version": server.version} if server else {}
        return WindowRecord(
            experiment=self.start.experiment.id,
            start=self.start.key,
            block=self.start.block,
            order=self.start.order,
            treatment=self.start.treatment.levels,
            copy=self.start.treatment.copy,
            attempt=attempt,
            server={"label": label, **programs},
            began=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        )

    def _histograms(self, window: Window, number: int) -> dict[str, str]:
        result = window.result
        if result is None or not result.latency_intended:
            return {}
        name = f"hdr/{self._stem}-{number}.hlog"
        tagged = {"intended": result.latency_intended, "actual": result.latency_actual}
        kept = {tag: text for tag, text in tagged.items() if text}
        log = self.runner.results.folder / name
        latency_histogram.write_log(log, time.time() - result.seconds, result.seconds, kept)
        return {"latency": name}


def manifest(
    experiments: Sequence[Experiment],
    installed: Mapping[str, InstalledServer],
    absent: Mapping[str, str],
    generator: LoadGenerator,
    options: Mapping[str, Any],
    environment: Environment | None = None,
) -> dict[str, Any]:
    """What was run, with which programs, on which machine: enough to repeat it."""
    environment = environment or Environment()
    return {
        "lab": __version__,
        "format": FORMAT,
        "source": machine_info.source_version(),
        "source_sha256": machine_info.source_digest(),
        "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **environment.describe(),
        "generator": {
            "name": generator.name,
            "version": generator.version,
            "sha256": environment.generator_digest(generator),
        },
        "servers": {
            label: {"kind": server.adapter.name, "version": server.version, "sha256": environment.digest(server)}
            for label, server in installed.items()
        },
        "absent": dict(absent),
        "options": dict(options),
        "experiments": {experiment.id: described(experiment) for experiment in experiments},
    }


def changed_program(
    manifest: Mapping[str, Any],
    installed: Mapping[str, InstalledServer],
    generator: LoadGenerator,
    environment: Environment,
) -> str:
    """Which program is another one than in the manifest; empty if there is none."""
    try:
        now = {label: environment.digest(server) for label, server in installed.items()}
        now[""] = environment.generator_digest(generator)
    except OSError as error:
        return f"a program of this run is gone: {error}"
    before = {label: server["sha256"] for label, server in manifest["servers"].items()}
    before[""] = manifest["generator"]["sha256"]
    changed = [label or generator.name for label, digest in now.items() if digest != before[label]]
    return f"{', '.join(changed)} changed during the run" if changed else ""


def described(experiment: Experiment) -> dict[str, Any]:
    """An experiment as the manifest stores it: definition, and the settings and levels of this run."""
    return {
        **asdict(experiment.definition),
        "settings": asdict(experiment.settings()),
        "levels": {factor.name: list(factor.levels) for factor in (*experiment.factors, *experiment.within)},
    }
