"""Which treatment is measured when: randomised complete blocks, the baseline twice in each."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

from zonda_lab.experiment import Experiment, Factor, Settings, TomlTable
from zonda_lab.metrics import level_words


@dataclass(frozen=True)
class Treatment:
    """One combination of levels; `copy` 1 is the second baseline of a block."""

    levels: dict[str, str]
    overrides: tuple[TomlTable, ...] = field(compare=False, repr=False)
    copy: int = 0

    @property
    def label(self) -> str:
        """The levels in words: `nsd, workers=2`."""
        return ", ".join(level_words(name, level) for name, level in self.levels.items()) + (
            " (again)" if self.copy else ""
        )


@dataclass(frozen=True)
class Start:
    """One fresh start of one server: the unit of replication."""

    experiment: Experiment
    block: int
    order: int
    treatment: Treatment
    within: tuple[Treatment, ...]

    @property
    def key(self) -> str:
        """Names the start in the records, and so what a resumed run need not do again."""
        levels = ",".join(f"{name}={level}" for name, level in self.treatment.levels.items())
        return f"{self.experiment.id}/{self.block}/{levels}/{self.treatment.copy}"

    @property
    def settings(self) -> Settings:
        """What this start is made with."""
        return self.experiment.settings(*self.treatment.overrides)

    def settings_of(self, inner: Treatment) -> Settings:
        """What one window of this start is made with."""
        return self.experiment.settings(*self.treatment.overrides, *inner.overrides)


def plan_starts(experiment: Experiment, seed: int) -> list[Start]:
    """All starts in the order in which they are to be made; the same seed gives the same order."""
    treatments = _with_second_baseline(experiment, crossed(experiment.factors))
    inner = crossed(experiment.within)
    starts: list[Start] = []
    for block in range(experiment.settings().timing.blocks):
        shuffle = random.Random(f"{seed}/{experiment.id}/{block}")
        for treatment in shuffle.sample(treatments, len(treatments)):
            within = tuple(shuffle.sample(inner, len(inner)))
            starts.append(Start(experiment, block, len(starts), treatment, within))
    return starts


def crossed(factors: tuple[Factor, ...]) -> list[Treatment]:
    """Every combination of the factors' levels; without factors the one empty combination."""
    combinations = itertools.product(*(factor.levels.items() for factor in factors))
    return [
        Treatment(
            {factor.name: level for factor, (level, _) in zip(factors, chosen, strict=True)},
            tuple(overrides for _, overrides in chosen),
        )
        for chosen in combinations
    ]


def _with_second_baseline(experiment: Experiment, treatments: list[Treatment]) -> list[Treatment]:
    """The A/A control: how often do two equal treatments look different?"""
    analysis = experiment.definition.analysis
    again = [
        Treatment(treatment.levels, treatment.overrides, copy=1)
        for treatment in treatments
        if analysis.baseline and treatment.levels.get(analysis.compare) == analysis.baseline
    ]
    return treatments + again
