"""Compares two results, or two servers of one result: an outcome per metric and an exit status for CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zonda_lab import statistics as st
from zonda_lab.analysis import Cell, ComparisonOutcome, classify, tabulate
from zonda_lab.errors import LabError
from zonda_lab.experiment import AnalysisSpec
from zonda_lab.results import Results, WindowRecord
from zonda_lab.schema import parse, suggestion

NOT_WORSE, WORSE, NO_DATA = 0, 1, 2


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
    """One metric, compared."""

    experiment: str
    metric: str
    levels: dict[str, str]
    effect: st.Effect
    p: float
    outcome: ComparisonOutcome


@dataclass(frozen=True)
class Samples:
    """One value per start for both sides; `paired` if they come from the same blocks."""

    a: list[float]
    b: list[float]
    paired: bool


@dataclass(frozen=True)
class Comparison:
    """All metrics; `interleaved` if both sides were measured in the same blocks."""

    metrics: list[MetricComparison]
    interleaved: bool

    @property
    def status(self) -> int:
        """0: no metric is significantly worse; 1: at least one is; 2: no metric has enough starts on both sides."""
        outcomes = {metric.outcome for metric in self.metrics}
        return WORSE if "worse" in outcomes else NOT_WORSE if outcomes - {"too few starts"} else NO_DATA

    @property
    def summary(self) -> str:
        """The outcome in one sentence."""
        if self.status == NO_DATA:
            return "not enough data: no metric has enough starts on both sides"
        count = Counter(metric.outcome for metric in self.metrics)
        counts = ", ".join(
            f"{count[name]} {name}" for name in ("worse", "better", "equivalent", "inconclusive") if count[name]
        )
        not_worse = "no evidence that B is worse than A" if count["inconclusive"] else "B is not worse than A"
        return f"{'B is worse than A' if self.status == WORSE else not_worse}: {counts}"


def compare(a: Side, b: Side, margin: float) -> Comparison:
    """Compares B with A in every metric of every experiment, with Holm's correction over all of them."""
    interleaved = a.folder.resolve() == b.folder.resolve()
    if interleaved and a.label == b.label:
        raise LabError("both sides are the same", "give two results, or two servers of one: RESULTS:nsd RESULTS:zonda")
    experiments = {**Results(a.folder).manifest()["experiments"], **Results(b.folder).manifest()["experiments"]}
    left, right = a.records(), b.records()
    found: list[tuple[str, str, dict[str, str], Samples]] = []
    for id_, document in experiments.items():
        analysis = parse(
            AnalysisSpec, {key.replace("_", "-"): value for key, value in document["analysis"].items()}, id_
        )
        mine = [[record for record in side if record.experiment == id_] for side in (left, right)]
        for metric in dict.fromkeys([analysis.metric, *analysis.metrics]):
            both = _both(metric, mine[0], mine[1], interleaved, bool(a.label or b.label))
            found += [(id_, metric, levels, samples) for levels, samples in both]
    effects = [
        (st.paired_effect if values.paired else st.unpaired_effect)(values.a, values.b, margin, len(found))
        for *_, values in found
    ]
    lines = [
        MetricComparison(id_, metric, levels, effect, effect.p, "too few starts")
        for (id_, metric, levels, _), effect in zip(found, effects, strict=True)
    ]
    corrected = st.holm([line.effect.p for line in lines])
    corrected_metrics = [_classified(line, p, margin) for line, p in zip(lines, corrected, strict=True)]
    return Comparison(corrected_metrics, interleaved)


def _both(
    metric: str, a: Sequence[WindowRecord], b: Sequence[WindowRecord], interleaved: bool, labelled: bool
) -> list[tuple[dict[str, str], Samples]]:
    """The cells that both sides have; with labels, the server name is not part of the key."""
    left, right = ({_key(cell, labelled): cell for cell in tabulate(side, metric) if not cell.copy} for side in (a, b))
    found = []
    for key in (key for key in left if key in right):
        values = _samples(left[key], right[key], interleaved)
        if min(values.a + values.b, default=0.0) > 0:
            found.append((dict(key), values))
    return found


def _samples(a: Cell, b: Cell, interleaved: bool) -> Samples:
    blocks = [block for block in a.values if block in b.values] if interleaved else []
    if not blocks:
        return Samples(list(a.values.values()), list(b.values.values()), paired=False)
    return Samples([a.values[block] for block in blocks], [b.values[block] for block in blocks], paired=True)


def _classified(line: MetricComparison, p: float, margin: float) -> MetricComparison:
    outcome = classify(line.effect, p, line.metric)
    if outcome in ("worse", "better", "different") and abs(line.effect.ratio - 1) < margin:
        outcome = "equivalent"
    return MetricComparison(line.experiment, line.metric, line.levels, line.effect, p, outcome)


def _key(cell: Cell, labelled: bool) -> tuple[tuple[str, str], ...]:
    return tuple((name, level) for name, level in cell.levels.items() if not (labelled and name == "server.name"))
