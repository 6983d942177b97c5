"""Validity of the measurements: invalid and skipped windows, limits of the rig, false alarms, calculated bounds."""

from collections import Counter
from collections.abc import Sequence

from zonda_lab.analysis.analysis import AaPair
from zonda_lab.experiments.metrics import METRICS, words
from zonda_lab.report.document import Folded, Part, Table, Text
from zonda_lab.report.number_format import number
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.statistics import ALPHA, intervals

BOUNDS = """The bound assumes one connection per zone: each local port is usable once per 60 seconds of TIME_WAIT. \
A server that reuses connections is faster than the bound; one that waits for retry timers is slower."""


def counted(records: Sequence[WindowRecord]) -> list[Part]:
    """How many windows are valid, with the most frequent reasons why others are not."""
    windows = [record for record in records if not record.skipped]
    invalid = [record for record in windows if not record.valid]
    text = f"{len(windows) - len(invalid)} of {len(windows)} windows are valid."
    if invalid:
        reasons = Counter(record.reasons[0].splitlines()[0] for record in invalid if record.reasons)
        text += f" Most frequent reason for exclusion: {reasons.most_common(1)[0][0]}." if reasons else ""
    if late := [record for record in windows if record.valid and record.latency_reasons]:
        reasons = Counter(record.latency_reasons[0] for record in late)
        text += f" Latency is excluded from {len(late)} valid windows; most frequent reason: "
        text += f"{reasons.most_common(1)[0][0]}."
    skipped = Counter(record.skipped.splitlines()[0] for record in records if record.skipped)
    if skipped:
        text += f" Skipped: {'; '.join(skipped)}."
    return [Text(text, "Windows.")]


def without_value(records: Sequence[WindowRecord], metric: str) -> list[Part]:
    """The treatments that were measured without one valid window of the primary metric, and why."""
    groups: dict[str, list[WindowRecord]] = {}
    for record in records:
        if not record.skipped:
            groups.setdefault(words(record.levels), []).append(record)
    texts = []
    for label, windows in groups.items():
        if not any(record.counts_for(metric) and metric in record.metrics for record in windows):
            reasons = Counter(why.splitlines()[0] for r in windows for why in (*r.reasons, *r.latency_reasons)[:1])
            texts.append(f"{label} ({'; '.join(why for why, _ in reasons.most_common(1))})")
    return [Text(f"{'; '.join(texts)}.", f"No valid window of {METRICS[metric].title}.")] if texts else []


def rig_bound(records: Sequence[WindowRecord]) -> list[Part]:
    """Which windows the rig limited, and why; their figures are printed as “at least”."""
    counting = [record for record in records if record.counts]
    limited = [record for record in counting if record.rig_bound]
    if not limited:
        return []
    reasons = Counter(record.rig_bound for record in limited)
    text = f"{len(limited)} of {len(counting)} windows were limited by the rig and not by the server: "
    text += "; ".join(f"{why} ({n})" for why, n in reasons.most_common(3))
    advice = "Their rates are lower bounds; compare answers per second of CPU time instead."
    return [Text(f"{text}. {advice}", "Rig-bound.")]


def false_alarms(pairs: Sequence[AaPair]) -> list[Text]:
    """The share of all A/A pairs that differ significantly, with its exact interval; 5 % are expected."""
    if not pairs:
        text = "no A/A pair has enough starts, so the rate of false alarms is unknown."
        return [Text(text, "False alarms:")]
    count = sum(pair.alarm for pair in pairs)
    low, high = intervals.exact_share(count, len(pairs))
    text = f"{count} of {len(pairs)} A/A pairs of all experiments and metrics differ significantly: "
    interval = f"95 % interval {low:.1%} – {high:.1%}, taking pairs as independent; 5 % expected"
    text += f"{count / len(pairs):.1%} ({interval}). "
    if low > ALPHA:
        text += "More than expected: the starts of this run are not independent."
    return [Text(text.strip(), "False alarms:")]


def predictions(records: Sequence[WindowRecord]) -> list[Part]:
    """Calculated bounds next to the measured values."""
    rows = []
    for record in records:
        for name, value in record.predictions.items():
            measured = record.metrics.get(name, record.metrics.get(f"{name}_open"))
            here = "" if measured is None else number(measured)
            rows.append([*record.levels.values(), name, number(value), here])
    if not rows:
        return []
    head = [*records[0].levels, "bound", "predicted", "measured"]
    table = Table(head, [row for row in rows if len(row) == len(head)])
    return [Folded("Calculated bounds and measured values", [Text(BOUNDS), table])]


def validity(records: Sequence[WindowRecord]) -> list[Part]:
    """All reasons, skips and notes with their frequency, and what saturated first."""
    reasons = Counter(reason.splitlines()[0] for record in records for reason in record.reasons)
    late = Counter(reason for record in records for reason in record.latency_reasons)
    skipped = Counter(record.skipped.splitlines()[0] for record in records if record.skipped)
    notes = Counter(note for record in records for note in record.notes)
    first = Counter(record.saturated[0][1] for record in records if record.counts and record.saturated)
    return [
        *_folded(f"Invalid because ({reasons.total()})", reasons),
        *_folded(f"Latency excluded because ({late.total()})", late),
        *_folded(f"Skipped because ({skipped.total()})", skipped),
        *_folded(f"Notes ({notes.total()})", notes),
        *_folded("What saturated first", first),
    ]


def _folded(title: str, counts: Counter[str]) -> list[Part]:
    """A folded table, the most frequent first; nothing if nothing was counted."""
    rows = [[what, str(n)] for what, n in counts.most_common()]
    return [Folded(title, [Table(["", "windows"], rows)])] if rows else []
