"""Compares two results, or two servers of one result, by non-inferiority: an outcome per metric, a status for CI."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from zonda_lab.analysis import effects
from zonda_lab.analysis.analysis import AaPair, aa_pairs, metrics_of, tabulate
from zonda_lab.analysis.effects import MIN_STARTS, Sample
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.results.conditions import circumstances, conditions, differences
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.schema import parse_stored, suggestion
from zonda_lab.statistics import ALPHA, ratio_effect
from zonda_lab.statistics.ratio_effect import Effect

NOT_WORSE, WORSE, UNDETECTED = 0, 1, 2
SEPARATED = 8  # two samples of four that do not overlap have p = 0.029
# not worse: the loss is significantly smaller than the margin. other: a metric without a better direction.
# withheld: a program differs from itself at those levels.
Decision = Literal["worse", "not worse", "undetected", "withheld", "too few starts", "other"]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a result, restricted to one server if a label is given."""

    folder: Path
    label: str

    @classmethod
    def parse(cls, text: str) -> Self:
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
    """One metric at the same levels on both sides; without values on a side that has none.

    `effect` is None if ratios do not exist: a side has no value, or a value is not positive.
    """

    experiment: str
    metric: str
    levels: dict[str, str]
    a: Sample
    b: Sample
    effect: Effect | None = None
    decision: Decision = "undetected"
    alarm: bool = False  # a program differs from itself at these levels


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


def compare(a: Side, b: Side, margin: float) -> Comparison:
    """Compares B with A in every metric of every experiment, with Holm's correction over all of them."""
    interleaved = a.folder.resolve() == b.folder.resolve()
    if interleaved and a.label == b.label:
        raise LabError("both sides are the same", "give two results, or two servers of one: RESULTS:nsd RESULTS:zonda")
    left, right = a.records(), b.records()
    _require_same_labels(a, left, b, right)
    found: list[MetricComparison] = []
    first, second = (Results(side.folder).manifest()["experiments"] for side in (a, b))
    for id_ in [id_ for id_ in second if id_ in first]:
        analysis = parse_stored(AnalysisSpec, second[id_]["analysis"], id_)
        sides = [[record for record in side if record.experiment == id_] for side in (left, right)]
        alarms = _alarms(a, b, id_, replace(analysis, margin=margin)) if interleaved else []
        for metric in metrics_of(analysis):
            compared = _compared(id_, metric, sides[0], sides[1], bool(a.label or b.label))
            found += [replace(each, alarm=_alarmed(each, alarms)) for each in compared]
    return Comparison(_decided(found, margin, interleaved), interleaved, margin)


def condition_differences(a: Side, b: Side) -> list[str]:
    """How the settings, machine and generator of A and B differ, in the experiments that both have."""
    one, other = (Results(side.folder).manifest() for side in (a, b))
    ours, theirs = one["experiments"], other["experiments"]
    return [
        each
        for id_ in theirs
        if id_ in ours
        for each in differences(conditions(one, ours[id_]), conditions(other, theirs[id_]), id_)
    ]


def circumstance_differences(a: Side, b: Side) -> list[str]:
    """How the kernels and the builds of the load generator of A and B differ."""
    one, other = (circumstances(Results(side.folder).manifest()) for side in (a, b))
    return list(differences(one, other))


def _require_same_labels(a: Side, left: Sequence[WindowRecord], b: Side, right: Sequence[WindowRecord]) -> None:
    """Fails if only one side has a label, and the other one has several servers to compare it with."""
    for side, records, other in ((a, left, b), (b, right, a)):
        servers = sorted({label for record in records if (label := record.server.get("label"))})
        if other.label and not side.label and len(servers) > 1:
            help_text = f"name one, as in {side.folder}:{servers[0]}"
            raise LabError(f"{side.folder} has several servers: {', '.join(servers)}", help_text)


def _compared(
    id_: str, metric: str, a: Sequence[WindowRecord], b: Sequence[WindowRecord], labelled: bool
) -> list[MetricComparison]:
    """The cells that any side has; with labels, the server name is not part of the key."""
    left, right = (
        {_key(cell.levels, labelled): cell.sample for cell in tabulate(side, metric) if not cell.copy}
        for side in (a, b)
    )
    nothing = Sample({})
    keys = dict.fromkeys([*left, *right])
    return [MetricComparison(id_, metric, dict(key), left.get(key, nothing), right.get(key, nothing)) for key in keys]


def _alarms(a: Side, b: Side, id_: str, analysis: AnalysisSpec) -> list[AaPair]:
    """The A/A pairs of one result that differ significantly, except those of servers that are not compared."""
    records = [record for record in Results(a.folder).records() if record.experiment == id_]
    pairs = aa_pairs(records, metrics_of(analysis), analysis)
    return [pair for pair in pairs if pair.alarm and pair.levels.get("server.name", a.label) in (a.label, b.label)]


def _alarmed(each: MetricComparison, alarms: Sequence[AaPair]) -> bool:
    """Whether an alarm is at the levels of this comparison."""
    return any(
        pair.metric == each.metric
        and all(each.levels.get(name, level) == level for name, level in pair.levels.items() if name != "server.name")
        for pair in alarms
    )


def _decided(found: Sequence[MetricComparison], margin: float, interleaved: bool) -> list[MetricComparison]:
    count = sum(bool(each.a.values and each.b.values) for each in found)
    measured = []
    for each in found:
        paired = interleaved and any(block in each.b.values for block in each.a.values)
        measured.append(effects.compared(each.metric, each.a, each.b, margin, count, paired))
    corrected = iter(ratio_effect.corrected([effect for effect in measured if effect]))
    decided = []
    for each, effect in zip(found, measured, strict=True):
        final = next(corrected) if effect else None
        decision = _decide(each.metric, final, margin) if final else _decide_zeros(each)
        withheld = each.alarm and decision not in ("too few starts", "other")
        decided.append(replace(each, effect=final, decision="withheld" if withheld else decision))
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
    absolute = METRICS[metric].margin
    limit = math.exp(absolute) if absolute else 1 + margin
    beyond = effect.ratio > limit if lower_is_better else effect.ratio < 1 / limit
    return "worse" if beyond and effect.p < ALPHA and not effect.low <= 1 <= effect.high else "undetected"


def _decide_zeros(pair: MetricComparison) -> Decision:
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


def _key(levels: dict[str, str], labelled: bool) -> tuple[tuple[str, str], ...]:
    return tuple((name, level) for name, level in levels.items() if not (labelled and name == "server.name"))
