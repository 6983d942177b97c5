"""Compares two results, or two servers of one result, by non-inferiority: an outcome per metric, a status for CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zonda_lab.analysis import effects
from zonda_lab.analysis.analysis import tabulate
from zonda_lab.analysis.effects import MIN_STARTS, Sample
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.schema import parse, suggestion
from zonda_lab.statistics import ALPHA, ratio_effect
from zonda_lab.statistics.ratio_effect import Effect

NOT_WORSE, WORSE, UNDETECTED = 0, 1, 2
SEPARATED = 8  # two samples of four that do not overlap have p = 0.029
# not worse: the loss is significantly smaller than the margin. other: a metric without a better direction.
Decision = Literal["worse", "not worse", "undetected", "too few starts", "other"]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a result, restricted to one server if a label is given."""

    folder: Path
    label: str

    @classmethod
    def parse(cls, text: str) -> Side:
        """`RESULTS` or `RESULTS:LABEL`."""
        folder, _, label = text.partition(":")
        return cls(Path(folder), label)

    def records(self) -> list[WindowRecord]:
        """Its windows; all of them without a label."""
        results = Results(self.folder)
        manifest, records = results.manifest(), results.records()
        if self.label and self.label not in manifest["servers"]:
            raise LabError(f"{self.folder} has no server {self.label}", suggestion(self.label, manifest["servers"]))
        return [record for record in records if self.label in ("", record.server.get("label"))]


@dataclass(frozen=True)
class MetricComparison:
    """One metric, compared; `effect` is None if ratios do not exist because values are zero."""

    experiment: str
    metric: str
    levels: dict[str, str]
    effect: Effect | None
    decision: Decision


@dataclass(frozen=True)
class Comparison:
    """All metrics; `interleaved` if both sides were measured in the same blocks."""

    metrics: list[MetricComparison]
    interleaved: bool
    margin: float

    @property
    def status(self) -> int:
        """0: every metric was shown to be not worse than the margin; 1: one is worse; 2: some remain undetected."""
        decisions = {metric.decision for metric in self.metrics} - {"other"}
        if "worse" in decisions:
            return WORSE
        return NOT_WORSE if decisions == {"not worse"} else UNDETECTED

    @property
    def summary(self) -> str:
        """The outcome in one sentence."""
        count = Counter(metric.decision for metric in self.metrics)
        if not count or set(count) == {"too few starts"}:
            return "not enough data: no metric has enough starts on both sides"
        words = {
            WORSE: "B is worse than A",
            NOT_WORSE: f"B is not worse than A by more than the margin of {self.margin:.1%}",
            UNDETECTED: f"undetected: more blocks are needed to show that B loses less than {self.margin:.1%}",
        }
        return f"{words[self.status]}: {', '.join(f'{n} {decision}' for decision, n in count.most_common())}"


@dataclass(frozen=True)
class Pair:
    """A metric at the same levels on both sides."""

    experiment: str
    metric: str
    levels: dict[str, str]
    a: Sample
    b: Sample


def compare(a: Side, b: Side, margin: float) -> Comparison:
    """Compares B with A in every metric of every experiment, with Holm's correction over all of them."""
    interleaved = a.folder.resolve() == b.folder.resolve()
    if interleaved and a.label == b.label:
        raise LabError("both sides are the same", "give two results, or two servers of one: RESULTS:nsd RESULTS:zonda")
    experiments = {**Results(a.folder).manifest()["experiments"], **Results(b.folder).manifest()["experiments"]}
    left, right = a.records(), b.records()
    pairs: list[Pair] = []
    for id_, document in experiments.items():
        analysis = parse(
            AnalysisSpec, {key.replace("_", "-"): value for key, value in document["analysis"].items()}, id_
        )
        sides = [[record for record in side if record.experiment == id_] for side in (left, right)]
        for metric in dict.fromkeys([analysis.metric, *analysis.metrics]):
            pairs += _pairs(id_, metric, sides[0], sides[1], bool(a.label or b.label))
    return Comparison(_decided(pairs, margin, interleaved), interleaved, margin)


def _pairs(id_: str, metric: str, a: Sequence[WindowRecord], b: Sequence[WindowRecord], labelled: bool) -> list[Pair]:
    """The cells that both sides have; with labels, the server name is not part of the key."""
    left, right = (
        {_key(cell.levels, labelled): cell.sample for cell in tabulate(side, metric) if not cell.copy}
        for side in (a, b)
    )
    return [Pair(id_, metric, dict(key), left[key], right[key]) for key in left if key in right]


def _decided(pairs: Sequence[Pair], margin: float, interleaved: bool) -> list[MetricComparison]:
    found = [effects.compared(p.metric, p.a, p.b, margin, len(pairs), paired=_paired(p, interleaved)) for p in pairs]
    corrected = iter(ratio_effect.corrected([effect for effect in found if effect]))
    decided = []
    for pair, effect in zip(pairs, found, strict=True):
        final = next(corrected) if effect else None
        decision = _decide(pair.metric, final, margin) if final else _decide_zeros(pair)
        decided.append(MetricComparison(pair.experiment, pair.metric, pair.levels, final, decision))
    return decided


def _decide(metric: str, effect: Effect, margin: float) -> Decision:
    """Worse: significantly, and by more than the margin in the estimate. Not worse: the margin is excluded."""
    if effect.n < MIN_STARTS:
        return "too few starts"
    better = METRICS[metric].better
    if better == "neither":
        return "other"
    lower_is_better = better == "lower"
    if (effect.p_not_higher if lower_is_better else effect.p_not_lower) < ALPHA:
        return "not worse"
    limit = 1 + (METRICS[metric].margin or margin)
    beyond = effect.ratio > limit if lower_is_better else effect.ratio < 1 / limit
    return "worse" if beyond and effect.p < ALPHA and not effect.low <= 1 <= effect.high else "undetected"


def _decide_zeros(pair: Pair) -> Decision:
    """Counts such as lost queries: no ratio exists if one is zero, but all zeros cannot be worse."""
    better, a, b = METRICS[pair.metric].better, pair.a.values.values(), pair.b.values.values()
    if better == "neither":
        return "other"
    if min(len(a), len(b)) < MIN_STARTS:
        return "too few starts"
    good, bad = (a, b) if better == "lower" else (b, a)
    if max(bad) <= min(good):
        return "not worse"
    return "worse" if min(bad) > max(good) and len(a) + len(b) >= SEPARATED else "undetected"


def _paired(pair: Pair, interleaved: bool) -> bool:
    return interleaved and any(block in pair.b.values for block in pair.a.values)


def _key(levels: dict[str, str], labelled: bool) -> tuple[tuple[str, str], ...]:
    return tuple((name, level) for name, level in levels.items() if not (labelled and name == "server.name"))
