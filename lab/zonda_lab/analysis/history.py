"""How committed results changed from commit to commit: series of medians with their change points."""

import itertools
import json
import math
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ruptures

from zonda_lab.analysis.analysis import Cell, metrics_of, tabulate
from zonda_lab.analysis.effects import MIN_STARTS
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.results import conditions
from zonda_lab.results.window_record import WindowRecord, parse_record, selected
from zonda_lab.schema import parse_stored
from zonda_lab.statistics import ALPHA, ratio_effect
from zonda_lab.statistics.ratio_effect import Effect

# A new segment must lower the squared deviations, in units of the variance of a median, by this many log(n).
PENALTY = 4.0
Key = tuple[str, str, str, str]  # experiment, metric, treatment, digest of the conditions
Edges = tuple[int, int, int]  # where a segment, the next one, and the one after that begin
FLOOR = 0.01  # the smallest variation of a median between recordings, whatever the starts of one recording say


@dataclass(frozen=True)
class Point:
    """One recording: the commit that was measured, one value per start, and the machine and peers it depends on."""

    commit: str
    began: str
    values: list[float]
    machine_and_peers: Mapping[str, Any]

    @property
    def median(self) -> float:
        """The median over starts."""
        return float(np.median(self.values))


@dataclass(frozen=True)
class Change:
    """A change of the level of a series at a recording: the recordings after it over those before.

    Its p value is NaN where a side has fewer than three recordings. It is no proof where it is small: the data that it
    is computed from also placed the change.
    """

    at: Point
    effect: Effect


@dataclass(frozen=True)
class Series:
    """One metric of one treatment over recordings of the same settings on the same kind of machine."""

    experiment: str
    metric: str
    label: str
    points: list[Point]
    changes: list[Change]

    @property
    def mixed(self) -> dict[int, list[str]]:
        """How machine, kernel or a peer's version differ from those of the previous recording, by index of a point.

        What one of the two does not describe is not known to differ.
        """
        pairs = enumerate(itertools.pairwise(point.machine_and_peers for point in self.points), 1)
        found = {i: list(conditions.differences(before, now, in_both=True)) for i, (before, now) in pairs}
        return {i: differences for i, differences in found.items() if differences}


@dataclass(frozen=True)
class Recording:
    """The manifest and the records of one committed experiment."""

    manifest: Mapping[str, Any]
    lines: Sequence[str]


def read(folder: Path) -> list[Series]:
    """The series of a folder of committed results, over its history in git."""
    return series_of(_committed(folder))


def series_of(recordings: Sequence[Recording]) -> list[Series]:
    """The series of recordings, those with changes first; p values are corrected over all changes (Holm).

    A change with a p value above 5 % is left out; one without is kept, for the search alone found it.
    """
    points: dict[Key, list[Point]] = {}
    for recording in sorted(recordings, key=lambda each: str(each.manifest["began"])):
        for key, point in _points(recording):
            points.setdefault(key, []).append(point)
    series = {key: each for key, each in points.items() if len(each) > 1}
    edges = [(key, at) for key, each in series.items() for at in _change_points(each)]
    tests = sum(_is_testable(at) for _, at in edges)
    effects = [_effect(series[key], at, tests) for key, at in edges]
    changes: dict[Key, list[Change]] = {}
    corrected = iter(ratio_effect.corrected([effect for effect in effects if not math.isnan(effect.p)]))
    for (key, (_, at, _)), found_effect in zip(edges, effects, strict=True):
        effect = found_effect if math.isnan(found_effect.p) else next(corrected)
        if not effect.p >= ALPHA:
            changes.setdefault(key, []).append(Change(series[key][at], effect))
    found = [Series(key[0], key[1], key[2], each, changes.get(key, [])) for key, each in series.items()]
    return sorted(found, key=lambda each: (not each.changes, each.experiment, each.metric, each.label))


def _change_points(points: Sequence[Point]) -> list[Edges]:
    """Change points by PELT on the logarithms of medians, in units of their standard error."""
    logs = [np.log(point.values) for point in points]
    spread = math.sqrt(float(np.mean([np.var(each, ddof=1) / len(each) for each in logs])))
    signal = np.array([[float(np.median(each))] for each in logs]) / max(spread, FLOOR)
    search = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(signal)
    ends = [0, *search.predict(pen=PENALTY * math.log(len(points) + 1))]
    return list(zip(ends, ends[1:], ends[2:], strict=False))


def _effect(points: Sequence[Point], edges: Edges, comparisons: int) -> Effect:
    """The medians of the segment after the change, over those of the segment before.

    The starts of one recording share its machine and hour, so they are one value.
    """
    begin, at, end = edges
    old, new = ([point.median for point in part] for part in (points[begin:at], points[at:end]))
    effect = ratio_effect.unpaired_effect(old, new, 0.0, max(1, comparisons))
    return effect if _is_testable(edges) else replace(effect, p=math.nan)


def _is_testable(edges: Edges) -> bool:
    """Whether both segments have enough recordings for a p value."""
    begin, at, end = edges
    return min(at - begin, end - at) >= MIN_STARTS


def _points(recording: Recording) -> Iterator[tuple[Key, Point]]:
    """One point per metric and treatment, under what makes recordings comparable."""
    manifest = recording.manifest
    records = [parse_record(line) for line in recording.lines]
    for id_, described in manifest["experiments"].items():
        analysis = parse_stored(AnalysisSpec, described["analysis"], id_)
        mine = [record for record in records if record.experiment == id_]
        for metric in metrics_of(analysis):
            for cell in tabulate(mine, metric):
                if _usable(cell, metric):
                    labels = _labels(selected(mine, **cell.levels), described)
                    depends = conditions.machine_and_peers(manifest, labels)
                    point = Point(manifest["source"], manifest["began"], list(cell.values.values()), depends)
                    yield (id_, metric, cell.label, conditions.digest(manifest, described)), point


def _labels(records: Iterable[WindowRecord], described: Mapping[str, Any]) -> set[str]:
    """The servers and primaries of these records."""
    primary = described["settings"].get("primary", {}).get("name", "")
    levels = {record.levels.get("primary.name", primary) for record in records}
    return levels | {record.server.get("label", "") for record in records}


def _usable(cell: Cell, metric: str) -> bool:
    """Whether the values can be compared as ratios between recordings."""
    enough = len(cell.values) >= MIN_STARTS and cell.sample.positive
    return enough and not cell.copy and not cell.sample.bounds and not METRICS[metric].margin


def _committed(folder: Path) -> list[Recording]:
    """Every version of every committed manifest and its records, once."""
    commits = _git(folder, "log", "--format=%H", "--", ".").split()
    blobs: dict[str, str] = {}  # object of a manifest -> commit:path of its records
    for commit in commits:
        for line in _git(folder, "ls-tree", "-r", commit, "--", ".").splitlines():
            mode_type_object, _, path = line.partition("\t")
            if path.endswith("/manifest.json"):
                records = f"{commit}:./{path.removesuffix('manifest.json')}records.jsonl"
                blobs.setdefault(mode_type_object.split()[2], records)
    return [
        Recording(json.loads(_git(folder, "cat-file", "blob", blob)), _git(folder, "show", records).splitlines())
        for blob, records in blobs.items()
    ]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{folder}: git {arguments[0]}: {done.stderr.strip()}", "the folder must be in a git repository")
    return done.stdout
