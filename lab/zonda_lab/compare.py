"""Two sets of results, or two servers of one: a verdict for each figure and an exit status for CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zonda_lab import statistics as st
from zonda_lab.analysis import Cell, Verdict, judge, table
from zonda_lab.errors import LabError
from zonda_lab.experiment import AnalysisSpec
from zonda_lab.results import Results, WindowRecord
from zonda_lab.schema import parse, suggestion

SAME, WORSE, UNKNOWN = 0, 1, 2


@dataclass(frozen=True)
class Side:
    """One side of a comparison: results, and of these only one server if a label is given."""

    folder: Path
    label: str

    @classmethod
    def parse(cls, text: str) -> Side:
        """`RESULTS` or `RESULTS:LABEL`."""
        folder, _, label = text.partition(":")
        return cls(Path(folder), label)

    def records(self) -> list[WindowRecord]:
        """Its windows; without a label all of them."""
        results = Results(self.folder)
        manifest, records = results.manifest(), results.records()
        if self.label and self.label not in manifest["servers"]:
            raise LabError(f"{self.folder} has no server {self.label}", suggestion(self.label, manifest["servers"]))
        return [record for record in records if self.label in ("", record.server.get("label"))]


@dataclass(frozen=True)
class MetricComparison:
    """One figure, compared."""

    experiment: str
    metric: str
    levels: dict[str, str]
    effect: st.Effect
    p: float
    verdict: Verdict


@dataclass(frozen=True)
class Values:
    """What is compared: a value a start, of both sides; paired are those of the same blocks."""

    a: list[float]
    b: list[float]
    paired: bool


@dataclass(frozen=True)
class Comparison:
    """All figures; `interleaved` if both sides were measured in the same blocks."""

    lines: list[MetricComparison]
    interleaved: bool

    @property
    def status(self) -> int:
        """0: nothing is worse; 1: something is; 2: nothing can be said."""
        if any(line.verdict == "worse" for line in self.lines):
            return WORSE
        return (
            SAME
            if any(line.verdict in ("better", "equal", "undetected", "different") for line in self.lines)
            else UNKNOWN
        )

    @property
    def verdict(self) -> str:
        """The whole in one sentence."""
        count = {
            verdict: sum(line.verdict == verdict for line in self.lines)
            for verdict in ("worse", "better", "equal", "undetected")
        }
        told = (
            ", ".join(f"{number} {verdict}" for verdict, number in count.items() if number)
            or "no figure is in both with enough starts"
        )
        same = "B was not seen to be worse than A" if count["undetected"] else "B is not worse than A"
        head = {SAME: same, WORSE: "B is worse than A", UNKNOWN: "nothing can be said"}[self.status]
        return f"{head}: {told}"


def compare(a: Side, b: Side, margin: float) -> Comparison:
    """B against A, experiment by experiment and figure by figure, Holm's correction over all of them."""
    interleaved = a.folder.resolve() == b.folder.resolve()
    if interleaved and a.label == b.label:
        raise LabError("both sides are the same", "name two results, or two servers of one: RESULTS:nsd RESULTS:zonda")
    experiments = {**Results(a.folder).manifest()["experiments"], **Results(b.folder).manifest()["experiments"]}
    left, right = a.records(), b.records()
    found: list[tuple[str, str, dict[str, str], Values]] = []
    for id_, document in experiments.items():
        analysis = parse(
            AnalysisSpec, {key.replace("_", "-"): value for key, value in document["analysis"].items()}, id_
        )
        mine = [[record for record in side if record.experiment == id_] for side in (left, right)]
        for metric in dict.fromkeys([analysis.metric, *analysis.metrics]):
            both = _both(metric, mine[0], mine[1], interleaved, bool(a.label or b.label))
            found += [(id_, metric, levels, values) for levels, values in both]
    effects = [
        (st.paired_effect if values.paired else st.unpaired_effect)(values.a, values.b, margin, len(found))
        for *_, values in found
    ]
    lines = [
        MetricComparison(id_, metric, levels, effect, effect.p, "too few")
        for (id_, metric, levels, _), effect in zip(found, effects, strict=True)
    ]
    corrected = st.holm([line.effect.p for line in lines])
    judged = [_judged(line, p, margin) for line, p in zip(lines, corrected, strict=True)]
    return Comparison(judged, interleaved)


def _both(
    metric: str, a: Sequence[WindowRecord], b: Sequence[WindowRecord], interleaved: bool, labelled: bool
) -> list[tuple[dict[str, str], Values]]:
    """The cells that both sides have; with labels the server's name is no part of what must be equal."""
    left, right = ({_key(cell, labelled): cell for cell in table(side, metric) if not cell.copy} for side in (a, b))
    found = []
    for key in (key for key in left if key in right):
        values = _values(left[key], right[key], interleaved)
        if min(values.a + values.b, default=0.0) > 0:
            found.append((dict(key), values))
    return found


def _values(a: Cell, b: Cell, interleaved: bool) -> Values:
    blocks = [block for block in a.values if block in b.values] if interleaved else []
    if not blocks:
        return Values(list(a.values.values()), list(b.values.values()), paired=False)
    return Values([a.values[block] for block in blocks], [b.values[block] for block in blocks], paired=True)


def _judged(line: MetricComparison, p: float, margin: float) -> MetricComparison:
    verdict = judge(line.effect, p, line.metric)
    if verdict in ("worse", "better", "different") and abs(line.effect.ratio - 1) < margin:
        verdict = "equal"
    return MetricComparison(line.experiment, line.metric, line.levels, line.effect, p, verdict)


def _key(cell: Cell, labelled: bool) -> tuple[tuple[str, str], ...]:
    return tuple((name, level) for name, level in cell.levels.items() if not (labelled and name == "server.name"))
