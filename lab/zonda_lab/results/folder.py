"""Results on disk: the manifest, one JSON line per window, and the files of histograms and telemetry."""

import dataclasses
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.results.settings_bounds import with_bounds
from zonda_lab.results.window_record import WindowRecord, parse_record

FORMAT = 2  # of the manifest; since 2, trials, bounds and the echo of the same rig are recorded


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
            help_text = f"continue with --resume {self.folder}, or choose another --out"
            raise LabError(f"{self.folder} already contains results", help_text)
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
            loaded = self.read("manifest.json")
        except FileNotFoundError:
            help_text = "it should have manifest.json and records.jsonl"
            raise LabError(f"{self.folder} contains no results", help_text) from None
        except ValueError as error:
            raise LabError(f"{self.folder}/manifest.json is damaged: {error}", "run the experiments again") from None
        if not isinstance(loaded, dict) or not {"experiments", "servers"} <= loaded.keys():
            raise LabError(f"{self.folder}/manifest.json is not a manifest of this lab", "run the experiments again")
        if loaded.get("format", FORMAT) < FORMAT:
            raise LabError(f"{self.folder} is a result of an earlier lab, which measured wrongly", "measure it again")
        return loaded

    def append(self, record: WindowRecord) -> None:
        """Appends a record and syncs it to disk."""
        with self.lines.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> list[WindowRecord]:
        """All records, with the bounds that their settings imply; ignores an incomplete last line."""
        experiments = self.manifest()["experiments"] if (self.folder / "manifest.json").exists() else {}
        return [with_bounds(record, experiments.get(record.experiment, {})) for record in self._stored()]

    def _stored(self) -> list[WindowRecord]:
        """All records as they were written."""
        text = self.lines.read_text(errors="replace") if self.lines.exists() else ""
        whole = text[: text.rfind("\n") + 1].split("\n")[:-1]
        return [self._record(line, number) for number, line in enumerate(whole, 1)]

    def _record(self, line: str, number: int) -> WindowRecord:
        try:
            return parse_record(line)
        except (ValueError, TypeError, AttributeError) as error:
            what = f"{self.lines}: line {number} is not a record: {error}"
            raise LabError(what, "remove that line to read the others") from None

    def remove_partial_line(self) -> None:
        """Removes an incomplete last line, left by a crash."""
        text = self.lines.read_bytes()
        if not text.endswith(b"\n"):
            self.lines.write_bytes(text[: text.rfind(b"\n") + 1])

    def finished(self) -> set[str]:
        """The starts whose last window is recorded."""
        return {record.start for record in self._stored() if record.detail.get("last")}

    def remove_start(self, start: str) -> None:
        """Removes the windows of an interrupted start, before it is repeated."""
        kept = [record for record in self._stored() if record.start != start]
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
