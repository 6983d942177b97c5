"""Results on disk: a manifest, one JSON line a window, histograms and telemetry beside them."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zonda_lab import validity
from zonda_lab.errors import LabError
from zonda_lab.metrics import METRICS

SCHEMA = 1


@dataclass
class WindowRecord:
    """One window: what was done, what came out, and whether it may be believed."""

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
    latency_reasons: list[str] = field(default_factory=list)  # its latencies are not valid, if the rest is
    notes: list[str] = field(default_factory=list)
    predictions: dict[str, float] = field(default_factory=dict)
    saturated: list[list[Any]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    schema: int = SCHEMA

    @property
    def levels(self) -> dict[str, str]:
        """All levels of the window, between and within starts."""
        return {**self.treatment, **self.within}

    @property
    def counts(self) -> bool:
        """May this window enter the analysis, whatever of it is asked for?"""
        return self.valid and not self.skipped

    def counts_for(self, metric: str) -> bool:
        """May this metric of the window, if it has it, enter the analysis?"""
        return self.counts and not (self.latency_reasons and METRICS[metric].is_latency)

    @property
    def disturbed(self) -> bool:
        """Was it measured, and something of it invalid only because the machine was not quiet?"""
        return bool(self.metrics) and validity.disturbed([*self.reasons, *self.latency_reasons])


class Results:
    """A folder of results that can be added to, broken off and gone on with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def lines(self) -> Path:
        """The records."""
        return self.folder / "records.jsonl"

    def create(self, manifest: dict[str, Any]) -> None:
        """Makes the folder with its manifest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.lines.exists():
            raise LabError(
                f"{self.folder} holds results already",
                f"go on with them by --resume {self.folder}, or choose another --out",
            )
        self.write("manifest.json", manifest)
        self.lines.touch()

    def write(self, name: str, content: dict[str, Any]) -> None:
        """A JSON file beside the records."""
        (self.folder / name).write_text(json.dumps(content, indent=1) + "\n")

    def manifest(self) -> dict[str, Any]:
        """What was run, where, with which programs."""
        try:
            loaded: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        except FileNotFoundError:
            raise LabError(
                f"{self.folder} holds no results", "it should have manifest.json and records.jsonl"
            ) from None
        except ValueError as error:
            raise LabError(f"{self.folder}/manifest.json is damaged: {error}", "measure again") from None
        if not isinstance(loaded, dict) or not {"experiments", "servers"} <= loaded.keys():
            raise LabError(f"{self.folder}/manifest.json is no manifest of this lab", "measure again")
        return loaded

    def append(self, record: WindowRecord) -> None:
        """Adds a window; once this returns it is on disk."""
        with self.lines.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> list[WindowRecord]:
        """All windows; a last line cut short by a crash is left out."""
        text = self.lines.read_text(errors="replace") if self.lines.exists() else ""
        whole = text[: text.rfind("\n") + 1].split("\n")[:-1]
        return [self._record(line, number) for number, line in enumerate(whole, 1)]

    def _record(self, line: str, number: int) -> WindowRecord:
        try:
            return parse_record(line)
        except (ValueError, TypeError, AttributeError) as error:
            raise LabError(
                f"{self.lines}: line {number} is no record: {error}", "without that line the others can be read"
            ) from None

    def mend(self) -> None:
        """Cuts off a last line that a crash left unfinished, so that more can be added."""
        text = self.lines.read_bytes()
        if not text.endswith(b"\n"):
            self.lines.write_bytes(text[: text.rfind(b"\n") + 1])

    def finished(self) -> set[str]:
        """The starts that have all their windows: those marked so."""
        return {record.start for record in self.records() if record.detail.get("last")}

    def forget(self, start: str) -> None:
        """Removes the windows of a start that was broken off; it will be made again as a whole."""
        kept = [record for record in self.records() if record.start != start]
        scratch = self.lines.with_suffix(".new")
        scratch.write_text("".join(json.dumps(dataclasses.asdict(record)) + "\n" for record in kept))
        scratch.rename(self.lines)

    def keep(self, source: Path, name: str) -> str:
        """Stores a file compressed; returns its name below the folder."""
        target = self.folder / f"{name}.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as plain, gzip.open(target, "wb") as packed:
            shutil.copyfileobj(plain, packed)
        return str(target.relative_to(self.folder))


def parse_record(line: str) -> WindowRecord:
    """One line of records.jsonl."""
    table = json.loads(line)
    if table.get("schema") != SCHEMA:
        raise LabError(f"records of schema {table.get('schema')}, this lab reads {SCHEMA}")
    return WindowRecord(**table)


def selected(records: Iterable[WindowRecord], **levels: str) -> list[WindowRecord]:
    """The windows that have all those levels."""
    return [record for record in records if all(record.levels.get(name) == level for name, level in levels.items())]
