"""Results on disk: the manifest, one JSON line per window, and the files of histograms and telemetry."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from zonda_lab import validity
from zonda_lab.errors import LabError
from zonda_lab.metrics import METRICS

SCHEMA = 1
# Of the manifest. Format 2: trials, bounds and the echo of the same rig are recorded.
FORMAT = 2
Bound = Literal["", "at least", "at most"]
LOWER_BOUNDS = "the load generator could not send more: peak rates are lower bounds"  # a note of format 1


# Zones that never arrive: the time to transfer all is longer than the patience, and the rate of all lower.
CENSORED: dict[str, Bound] = {
    "transfer_s": "at least",
    "all_zones_s": "at least",
    "zones_per_s": "at most",
    "records_per_s": "at most",
    "cpu_us_per_record": "at least",
}


@dataclass
class WindowRecord:
    """One window: its treatment, metrics and validity."""

    experiment: str
    start: str
    block: int
    order: int
    treatment: dict[str, str]
    copy: int = 0
    within: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    server: dict[str, str] = field(default_factory=dict)
    began: str = ""
    window: list[float] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    valid: bool = True
    reasons: list[str] = field(default_factory=list)
    latency_reasons: list[str] = field(default_factory=list)  # why only its latencies are invalid
    notes: list[str] = field(default_factory=list)
    predictions: dict[str, float] = field(default_factory=dict)
    saturated: list[list[Any]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    bounds: dict[str, Bound] = field(default_factory=dict)  # metrics whose true value is beyond the recorded one
    rig_bound: str = ""  # why the rig was the limit, and not the server
    echo: dict[str, float] = field(default_factory=dict)  # metrics of the echo in the same rig, hour and transport
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if cost := self.metrics.get("cpu_us_per_query"):  # records of format 1 have the cost alone
            self.metrics.setdefault("answers_per_cpu_s", 1e6 / cost)

    @property
    def levels(self) -> dict[str, str]:
        """The levels of all factors, between and within starts."""
        return {**self.treatment, **self.within}

    @property
    def counts(self) -> bool:
        """Whether the window may be analysed."""
        return self.valid and not self.skipped

    def counts_for(self, metric: str) -> bool:
        """Whether this metric of the window may be analysed."""
        return self.counts and not (self.latency_reasons and METRICS[metric].is_latency)

    def bound(self, metric: str) -> Bound:
        """Whether the recorded value is only a bound: the rig, a ceiling or a timeout ended the measurement."""
        if metric in self.bounds:
            return self.bounds[metric]
        if self.metrics.get("zones_missing") and metric in CENSORED:
            return CENSORED[metric]
        searched = self.detail.get("peaks", {}).get(metric)
        if searched and searched.get("failed") is None:
            return "at least"
        return "at least" if metric.startswith("peak_") and LOWER_BOUNDS in self.notes else ""

    @property
    def disturbed(self) -> bool:
        """Whether it is invalid only because of other load on the machine."""
        return bool(self.metrics) and validity.disturbed([*self.reasons, *self.latency_reasons])


class Results:
    """A results folder; an interrupted run can be resumed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def lines(self) -> Path:
        """The file of records."""
        return self.folder / "records.jsonl"

    def create(self, manifest: dict[str, Any]) -> None:
        """Creates the folder with its manifest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.lines.exists():
            raise LabError(
                f"{self.folder} already contains results",
                f"continue with --resume {self.folder}, or choose another --out",
            )
        self.write("manifest.json", manifest)
        self.lines.touch()

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Writes a JSON file into the folder."""
        (self.folder / name).write_text(json.dumps(content, indent=1) + "\n")

    def read(self, name: str) -> dict[str, Any]:
        """Reads a JSON file of the folder."""
        loaded: dict[str, Any] = json.loads((self.folder / name).read_text())
        return loaded

    def manifest(self) -> dict[str, Any]:
        """The description of the run."""
        try:
            loaded: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        except FileNotFoundError:
            raise LabError(
                f"{self.folder} contains no results", "it should have manifest.json and records.jsonl"
            ) from None
        except ValueError as error:
            raise LabError(f"{self.folder}/manifest.json is damaged: {error}", "run the experiments again") from None
        if not isinstance(loaded, dict) or not {"experiments", "servers"} <= loaded.keys():
            raise LabError(f"{self.folder}/manifest.json is not a manifest of this lab", "run the experiments again")
        return loaded

    def append(self, record: WindowRecord) -> None:
        """Appends a record and syncs it to disk."""
        with self.lines.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> list[WindowRecord]:
        """All records; ignores an incomplete last line."""
        text = self.lines.read_text(errors="replace") if self.lines.exists() else ""
        whole = text[: text.rfind("\n") + 1].split("\n")[:-1]
        return [self._record(line, number) for number, line in enumerate(whole, 1)]

    def _record(self, line: str, number: int) -> WindowRecord:
        try:
            return parse_record(line)
        except (ValueError, TypeError, AttributeError) as error:
            raise LabError(
                f"{self.lines}: line {number} is not a record: {error}", "remove that line to read the others"
            ) from None

    def remove_partial_line(self) -> None:
        """Removes an incomplete last line, left by a crash."""
        text = self.lines.read_bytes()
        if not text.endswith(b"\n"):
            self.lines.write_bytes(text[: text.rfind(b"\n") + 1])

    def finished(self) -> set[str]:
        """The starts whose last window is recorded."""
        return {record.start for record in self.records() if record.detail.get("last")}

    def remove_start(self, start: str) -> None:
        """Removes the windows of an interrupted start, before it is repeated."""
        kept = [record for record in self.records() if record.start != start]
        scratch = self.lines.with_suffix(".new")
        scratch.write_text("".join(json.dumps(dataclasses.asdict(record)) + "\n" for record in kept))
        scratch.rename(self.lines)

    def store_file(self, source: Path, name: str) -> str:
        """Stores a file compressed; returns its path relative to the folder."""
        target = self.folder / f"{name}.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as plain, gzip.open(target, "wb") as packed:
            shutil.copyfileobj(plain, packed)
        return str(target.relative_to(self.folder))


def parse_record(line: str) -> WindowRecord:
    """Parses one line of records.jsonl."""
    table = json.loads(line)
    if table.get("schema") != SCHEMA:
        raise LabError(f"records of schema {table.get('schema')}, this lab reads {SCHEMA}")
    return WindowRecord(**table)


def selected(records: Iterable[WindowRecord], **levels: str) -> list[WindowRecord]:
    """The records with all those levels."""
    return [record for record in records if all(record.levels.get(name) == level for name, level in levels.items())]
