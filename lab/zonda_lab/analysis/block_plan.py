"""Plans blocks by the power calculation: how many repetitions detect the effect that an experiment is about."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zonda_lab.analysis.analysis import grouped, sample_of, tabulate
from zonda_lab.analysis.effects import MIN_STARTS
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import AnalysisSpec, Experiment
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.statistics import ratio_effect

SHORTEST_S = 60.0  # a planned experiment is not cut below it
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
            return f"{self.blocks} blocks: no earlier result shows the variance of its primary metric"
        enough = str(self.needed) if self.needed else f"more than {ratio_effect.MOST_BLOCKS:,}"
        text = f"{self.blocks} blocks detect {self.mde:.1%} (variation between blocks {self.sigma:.1%})"
        short = self.needed is None or self.needed > self.blocks
        return f"{text}; {self.effect:.1%} needs {enough}" if short else text


@dataclass(frozen=True)
class Prospect:
    """What a plan needs to know of an experiment; `sigma` is None without earlier results."""

    experiment: str
    effect: float
    sigma: float | None
    comparisons: int
    block_s: float

    @property
    def needed(self) -> int | None:
        """The blocks that detect the effect; None without earlier results, or above `MOST_BLOCKS`."""
        if self.sigma is None:
            return None
        return ratio_effect.blocks_needed(self.sigma, self.effect, self.comparisons)

    def plan(self, most_s: float) -> BlockPlan:
        """The blocks that detect the effect, or those that fit into `most_s` seconds."""
        affordable = max(MIN_STARTS, int(most_s / max(self.block_s, 1e-9)))
        if self.sigma is None:
            blocks = min(affordable, PILOT_BLOCKS)
            return BlockPlan(self.experiment, self.effect, None, None, blocks, blocks * self.block_s, math.nan)
        needed = self.needed
        blocks = min(affordable, max(MIN_BLOCKS, needed or ratio_effect.MOST_BLOCKS))
        mde = ratio_effect.minimum_detectable(self.sigma, blocks, self.comparisons)
        return BlockPlan(self.experiment, self.effect, self.sigma, needed, blocks, blocks * self.block_s, mde)


def prospects(
    experiments: Sequence[Experiment], earlier: Sequence[Path], block_s: Callable[[Experiment], float]
) -> list[Prospect]:
    """One for each experiment; `block_s` is the duration of one block, in seconds."""
    records = [record for folder in earlier for record in Results(folder).records()]
    found = []
    for each in experiments:
        analysis = each.definition.analysis
        factor = each.factor(analysis.compare)
        chosen = factor.levels if factor else {}
        mine = [r for r in records if r.experiment == each.id and r.levels.get(analysis.compare) in chosen]
        found.append(prospect_of(mine, analysis, each.id, block_s(each)))
    return found


def prospect_of(
    records: Sequence[WindowRecord], analysis: AnalysisSpec, experiment: str = "", block_s: float = 0.0
) -> Prospect:
    """What the earlier results of an experiment say: the variation, and the most levels compared with one baseline."""
    if not analysis.baseline:
        return Prospect(experiment, analysis.effect, None, 1, block_s)
    cells = [cell for cell in tabulate(records, analysis.metric) if not cell.copy]
    comparisons = max((len(group) - 1 for group in grouped(cells, analysis).values()), default=1)
    return Prospect(experiment, analysis.effect, sigma_of(records, analysis), max(1, comparisons), block_s)


def within(prospects_: Sequence[Prospect], each_s: float, total_s: float) -> list[BlockPlan]:
    """Plans of at most `each_s`; the longest are shortened until all take at most `total_s`, if that is possible."""
    plans = [prospect.plan(each_s) for prospect in prospects_]
    limit = each_s
    while sum(plan.seconds for plan in plans) > total_s and limit > SHORTEST_S:
        limit *= 0.9
        plans = [prospect.plan(limit) for prospect in prospects_]
    return plans


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
    spreads: list[float] = []
    for copy in (1, 0):
        for cell in cells:
            if cell.copy != copy or (not copy and cell.levels.get(analysis.compare) == analysis.baseline):
                continue
            wanted = {**cell.levels, analysis.compare: analysis.baseline}
            base = sample_of((r for r in records if r.levels == wanted and not r.copy), metric)
            if differences := _differences(metric, base.values, cell.values):
                spreads.append(float(np.var(differences, ddof=1)))
        if spreads:
            break
    return math.sqrt(float(np.mean(spreads))) if spreads else None


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
