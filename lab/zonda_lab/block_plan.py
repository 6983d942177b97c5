"""Plans blocks by the power calculation: how many repetitions detect the effect that an experiment is about."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zonda_lab import statistics as st
from zonda_lab.analysis import sample_of, tabulate
from zonda_lab.effects import MIN_STARTS
from zonda_lab.errors import LabError
from zonda_lab.experiment import AnalysisSpec, Experiment
from zonda_lab.metrics import METRICS
from zonda_lab.results import Results, WindowRecord

MIN_BLOCKS, PILOT_BLOCKS = 5, 5  # at least; without earlier results, to learn the variance


@dataclass(frozen=True)
class BlockPlan:
    """The blocks of one experiment: needed for its effect, and affordable within the time limit."""

    experiment: str
    effect: float
    sigma: float | None
    needed: int | None
    blocks: int
    seconds: float
    mde: float

    @property
    def summary(self) -> str:
        """One line for people."""
        if self.sigma is None:
            return f"{self.blocks} blocks: no earlier result tells the variance of its primary metric"
        enough = str(self.needed) if self.needed else f"more than {st.MOST_BLOCKS:,}"
        text = f"{self.blocks} blocks detect {self.mde:.1%} (variation between blocks {self.sigma:.1%})"
        short = self.needed is None or self.needed > self.blocks
        return f"{text}; {self.effect:.1%} needs {enough}" if short else text


def plan(
    experiments: Sequence[Experiment],
    earlier: Sequence[Path],
    most_s: float,
    estimate: Callable[[Experiment, int], float],
) -> list[BlockPlan]:
    """A plan for each experiment; `estimate` is the duration of an experiment with that many blocks."""
    records = [record for folder in earlier for record in Results(folder).records()]
    return [_planned(each, [r for r in records if r.experiment == each.id], most_s, estimate) for each in experiments]


def kept_folders(folder: Path) -> list[Path]:
    """The results in a folder: itself, or each committed result in it."""
    found = sorted(path.parent for path in (*folder.glob("manifest.json"), *folder.glob("*/manifest.json")))
    if not found:
        raise LabError(f"{folder} contains no results", "give a results folder, or lab/records")
    return found


def sigma_of(records: Sequence[WindowRecord], analysis: AnalysisSpec) -> float | None:
    """The standard deviation of paired differences (of logarithms) of the primary metric.

    From A/A pairs, which have no effect that varies; without them from all levels against the baseline.
    """
    metric = analysis.metric
    cells = [cell for cell in tabulate(records, metric) if not cell.sample.bounds]
    groups: dict[tuple[tuple[str, str], ...], list[list[float]]] = {}
    for copy in (1, 0):
        for cell in cells:
            if cell.copy != copy or (not copy and cell.levels.get(analysis.compare) == analysis.baseline):
                continue
            if differences := _differences(metric, _baseline_of(records, cell.levels, analysis, metric), cell.values):
                groups.setdefault(tuple(cell.levels.items()), []).append(differences)
        if groups:
            break
    spreads = [float(np.var(each, ddof=1)) for group in groups.values() for each in group]
    return math.sqrt(float(np.mean(spreads))) if spreads else None


def _planned(
    experiment: Experiment, records: Sequence[WindowRecord], most_s: float, estimate: Callable[[Experiment, int], float]
) -> BlockPlan:
    analysis = experiment.definition.analysis
    factor = experiment.factor(analysis.compare)
    comparisons = max(1, len(factor.levels) - 1) if factor else 1
    sigma = sigma_of(records, analysis) if analysis.baseline else None
    each = estimate(experiment, 1)
    affordable = max(MIN_STARTS, int(most_s / each))
    needed = st.blocks_needed(sigma, analysis.effect, comparisons) if sigma is not None else PILOT_BLOCKS
    blocks = min(affordable, max(MIN_BLOCKS, needed or st.MOST_BLOCKS))
    mde = st.minimum_detectable(sigma, blocks, comparisons) if sigma is not None else math.nan
    return BlockPlan(experiment.id, analysis.effect, sigma, needed, blocks, estimate(experiment, blocks), mde)


def _baseline_of(
    records: Sequence[WindowRecord], levels: Mapping[str, str], analysis: AnalysisSpec, metric: str
) -> dict[int, float]:
    """The first runs of the baseline at otherwise the same levels."""
    wanted = {**levels, analysis.compare: analysis.baseline}
    return sample_of((r for r in records if r.levels == wanted and not r.copy), metric).values


def _differences(metric: str, base: Mapping[int, float], values: Mapping[int, float]) -> list[float]:
    """Differences by block, of logarithms unless the metric is compared in absolute terms."""
    blocks = [block for block in values if block in base]
    if len(blocks) < MIN_STARTS:
        return []
    if METRICS[metric].margin:
        return [values[block] - base[block] for block in blocks]
    if min(min(values[block], base[block]) for block in blocks) <= 0:
        return []
    return [math.log(values[block] / base[block]) for block in blocks]
