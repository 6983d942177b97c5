"""The experimental design: randomised complete blocks, with the baseline twice per block."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zonda_lab.experiments.definition import Combination, Experiment, Factor, Settings, TomlTable
from zonda_lab.experiments.metrics import words


@dataclass(frozen=True)
class Treatment:
    """One combination of levels, of a start or a window in it; `copy` is 1 for the second baseline of a block."""

    levels: dict[str, str]
    overrides: tuple[TomlTable, ...] = field(compare=False, repr=False)
    copy: int = 0

    @property
    def label(self) -> str:
        """The levels as text: `nsd, workers 2`."""
        return words(self.levels) + (" (again)" if self.copy else "")


@dataclass(frozen=True)
class Start:
    """One planned start of one server: the unit of replication."""

    experiment: Experiment
    block: int
    order: int
    treatment: Treatment
    within: tuple[Treatment, ...]

    @property
    def key(self) -> str:
        """Identifies the start in the records, so that a resumed run can skip it."""
        return _key(self.experiment.id, self.block, self.treatment.levels, self.treatment.copy)

    @property
    def settings(self) -> Settings:
        """The settings of this start."""
        return self.experiment.settings(*self.treatment.overrides)

    def settings_of(self, inner: Treatment) -> Settings:
        """The settings of one window of this start."""
        return self.experiment.settings(*self.treatment.overrides, *inner.overrides)

    def baseline_of(self, inner: Treatment) -> Settings:
        """The settings of that window with the compared factor at its baseline, if it has one."""
        analysis, levels = self.experiment.definition.analysis, {**self.treatment.levels, **inner.levels}
        compared = self.experiment.factor(analysis.compare)
        if compared is None or analysis.baseline not in compared.levels:
            return self.settings_of(inner)
        levels[compared.name] = analysis.baseline
        factors = (*self.experiment.factors, *self.experiment.within)
        return self.experiment.settings(*(factor.levels[levels[factor.name]] for factor in factors))


def plan_starts(experiment: Experiment, seed: int) -> list[Start]:
    """All starts in randomised order; the same seed gives the same order."""
    measured = [each for each in crossed(experiment.factors) if experiment.combination(each.levels)]
    treatments = _with_second_baseline(experiment, measured)
    inner = _with_second_baseline(experiment, crossed(experiment.within))
    starts: list[Start] = []
    for block in range(experiment.settings().timing.blocks):
        shuffle = random.Random(f"{seed}/{experiment.id}/{block}")
        for treatment in shuffle.sample(treatments, len(treatments)):
            within = tuple(shuffle.sample(inner, len(inner)))
            starts.append(Start(experiment, block, len(starts), treatment, within))
    return starts


def planned_keys(described: Mapping[str, Any]) -> set[str]:
    """The keys of all starts of an experiment as the manifest of a run describes it."""
    names, analysis = list(described["factors"]), described["analysis"]
    combinations = [Combination(**each) for each in described.get("combinations", ())] or [Combination()]
    keys = set()
    for chosen in itertools.product(*(described["levels"][name] for name in names)):
        levels = dict(zip(names, chosen, strict=True))
        if not any(each.has(levels) for each in combinations):
            continue
        is_baseline = bool(analysis["baseline"]) and levels.get(analysis["compare"]) == analysis["baseline"]
        blocks = range(described["settings"]["timing"]["blocks"])
        keys |= {_key(described["id"], block, levels, copy) for block in blocks for copy in range(1 + is_baseline)}
    return keys


def _key(id_: str, block: int, levels: Mapping[str, str], copy: int) -> str:
    return f"{id_}/{block}/{','.join(f'{name}={level}' for name, level in levels.items())}/{copy}"


def crossed(factors: tuple[Factor, ...]) -> list[Treatment]:
    """Every combination of levels; without factors one empty combination."""
    combinations = itertools.product(*(factor.levels.items() for factor in factors))
    return [
        Treatment(
            {factor.name: level for factor, (level, _) in zip(factors, chosen, strict=True)},
            tuple(overrides for _, overrides in chosen),
        )
        for chosen in combinations
    ]


def _with_second_baseline(experiment: Experiment, treatments: list[Treatment]) -> list[Treatment]:
    """Adds the second baseline of the A/A pair: a start or, if the compared factor varies within starts, a window."""
    analysis = experiment.definition.analysis
    again = [
        Treatment(treatment.levels, treatment.overrides, copy=1)
        for treatment in treatments
        if analysis.baseline and treatment.levels.get(analysis.compare) == analysis.baseline
    ]
    return treatments + again
