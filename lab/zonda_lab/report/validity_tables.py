"""Validity of the measurements: invalid and skipped windows, limits of the rig, false alarms, calculated bounds."""

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from zonda_lab.analysis.analysis import AaPair, tabulate
from zonda_lab.experiments.metrics import METRICS, words
from zonda_lab.report.document import Folded, Part, Table, Text
from zonda_lab.report.number_format import number, span_text
from zonda_lab.report.result_tables import value_text
from zonda_lab.results.window_record import WindowRecord, selected
from zonda_lab.statistics import ALPHA, intervals

TIME_WAIT = """The bound assumes one connection per zone: each local port is usable once per 60 seconds of TIME_WAIT. \
A server that reuses connections is faster than the bound; one that waits for retry timers is slower."""
PORTS = """Each open connection needs a local port of its own, so local ports times source addresses is the bound of \
the load generator."""
# Of each bound in the records: its title, the metric beside it, how it was calculated.
BOUNDS = {
    "transfer_s": ("shortest time to transfer all zones, s", "transfer_s", TIME_WAIT),
    "connections_per_s": ("zones transferred per second, with a connection each", "zones_per_s", TIME_WAIT),
    "connections": ("connections open", "connections_open", PORTS),
}
NUMBER = re.compile(r"(?<![\w.\-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*[A-Za-z_])")  # not those in names, such as `udp-0`


def counted(records: Sequence[WindowRecord]) -> list[Part]:
    """How many windows are valid, with the most frequent reasons why others are not."""
    windows = [record for record in records if not record.skipped]
    invalid = [record for record in windows if not record.valid]
    text = f"{len(windows) - len(invalid)} of {len(windows)} windows are valid."
    if invalid:
        reasons = grouped(_first_lines(record)[0] for record in invalid if record.reasons)
        text += f" Most frequent reason for exclusion: {reasons[0][0]}." if reasons else ""
    if late := [record for record in windows if record.valid and record.latency_reasons]:
        frequent = grouped(record.latency_reasons[0] for record in late)[0][0]
        text += f" Latency is excluded from {len(late)} valid windows; most frequent reason: {frequent}."
    skipped = grouped(record.skipped.splitlines()[0] for record in records if record.skipped)
    if skipped:
        text += f" Skipped: {'; '.join(f'{why} ({n})' for why, n in skipped)}."
    return [Text(text, "Windows.")]


def without_value(records: Sequence[WindowRecord], metric: str) -> list[Part]:
    """The treatments that were measured without one value of the primary metric, and why."""
    groups: dict[str, list[WindowRecord]] = {}
    for record in records:
        if not record.skipped:
            groups.setdefault(words(record.levels), []).append(record)
    lacking = {label: w for label, w in groups.items() if not any(record.has(metric) for record in w)}
    texts, without = list[str](), list[str]()
    for label, windows in lacking.items():
        reasons = grouped(why.splitlines()[0] for r in windows for why in (*r.reasons, *r.latency_reasons)[:1])
        texts += [f"{label} ({why})" for why, _ in reasons[:1]]
        without += [] if reasons else [label]
    parts = [Text(f"{'; '.join(texts)}.", f"No valid window of {METRICS[metric].title}.")] if texts else []
    if without:
        listed = dict.fromkeys(_alone(groups[label][0].levels, without, groups) for label in without)
        parts.append(Text(f"{METRICS[metric].heading} does not apply to: {'; '.join(listed)}.", "Not measured."))
    return [*parts]


def _alone(levels: Mapping[str, str], without: Collection[str], groups: Mapping[str, Sequence[WindowRecord]]) -> str:
    """The first of the levels at which every treatment is `without`; all levels if there is none."""
    for name, level in levels.items():
        if all(label in without for label, windows in groups.items() if windows[0].levels.get(name) == level):
            return words({name: level})
    return words(levels)


def rig_bound(records: Sequence[WindowRecord]) -> list[Part]:
    """Which windows the rig limited, and why; their figures are printed as “at least”."""
    counting = [record for record in records if record.counts]
    limited = [record for record in counting if record.rig_bound]
    if not limited:
        return []
    text = f"{len(limited)} of {len(counting)} windows were limited by the rig and not by the server: "
    text += "; ".join(f"{why} ({n})" for why, n in grouped(record.rig_bound for record in limited)[:3])
    has_cost = any("cpu_us_per_query" in record.metrics for record in counting)
    instead = "; compare CPU time per answer instead" if has_cost else ""
    return [Text(f"{text}. Their rates are lower bounds, their losses upper ones{instead}.", "Rig-bound.")]


def false_alarms(experiments: Iterable[Sequence[AaPair]], of: str = "of all experiments and metrics") -> list[Text]:
    """The share of all A/A pairs that differ significantly, with its exact interval; 5 % are expected.

    Metrics that repeat another one of the same experiment are not counted again.
    """
    found = [pair for of_one in experiments for pair in of_one if not _repeats(pair, of_one)]
    pairs = [pair for pair in found if pair.can_alarm]
    constant = len(found) - len(pairs)
    left_out = f" Not counted: {constant} without variance, which cannot differ by chance." if constant else ""
    if not pairs:
        text = "there is no A/A pair to compare, so the rate of false alarms is unknown."
        return [Text(f"{text}{left_out}", "False alarms:")]
    count = sum(pair.significant for pair in pairs)
    low, high = intervals.exact_share(count, len(pairs))
    text = f"{count} of {len(pairs)} A/A pairs {of} differ significantly: "
    interval = f"95 % interval {low:.1%} – {high:.1%}, taking pairs as independent; 5 % expected"
    text += f"{count / len(pairs):.1%} ({interval})."
    if low > ALPHA:
        text += " More than expected: the starts of this run are not independent."
    return [Text(f"{text}{left_out}", "False alarms:")]


def _repeats(pair: AaPair, pairs: Iterable[AaPair]) -> bool:
    return METRICS[pair.metric].repeats in {other.metric for other in pairs}


def predictions(records: Sequence[WindowRecord]) -> list[Part]:
    """Calculated bounds next to the medians of the valid windows; nothing if all zones find a free port at once."""
    predicted = [record for record in records if record.predictions and record.counts]
    if not any(map(_waits, predicted)):
        return []
    rows, texts = [], dict[str, None]()
    for bound in dict.fromkeys(name for record in predicted for name in record.predictions):
        title, metric, text = BOUNDS[bound]
        texts[text] = None
        for cell in tabulate(predicted, metric):
            windows = selected(predicted, **cell.levels)
            values = {record.predictions[bound] if _waits(record) else 0.0 for record in windows}
            limit = "none" if min(values) in (0.0, math.inf) else span_text(number(min(values)), number(max(values)))
            rows.append([cell.label, title, limit, value_text(cell), str(len(cell.values))])
    head = ["treatment", "quantity", "calculated bound", "measured: median (95 % interval)", "starts"]
    return [Folded("Calculated bounds and measured values", [Text(" ".join(texts)), Table(head, rows)])]


def _waits(record: WindowRecord) -> bool:
    """Whether its zones outnumber the ports, so that the bound applies; that of open connections always does."""
    return record.predictions.get("transfer_s") != 0.0


def validity(records: Sequence[WindowRecord]) -> list[Part]:
    """All reasons, skips and notes with the number of their windows, and what saturated first."""
    late = [record.latency_reasons for record in records if record.latency_reasons]
    skipped = [[record.skipped.splitlines()[0]] for record in records if record.skipped]
    notes = [record.notes for record in records if record.notes]
    first = [[resource(record.saturated[0][1])] for record in records if record.counts and record.saturated]
    return [
        *_folded("Excluded windows", "reason", [_first_lines(record) for record in records if record.reasons]),
        *_folded("Windows whose latencies are excluded", "reason", late),
        *_folded("Skipped windows", "reason", skipped),
        *_folded("Windows with notes", "note", notes),
        *_folded("What saturated first", "resource", first),
    ]


def resource(text: str) -> str:
    """A saturated resource without the numbers of threads, which differ in every start."""
    if text.startswith("load: thread "):
        return "a thread of the load generator uses its whole core"
    return re.sub(r"^server: thread (.+?)(?:[- ]\d+)? uses", r"the server's thread \1 uses", text)


def grouped(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Texts that differ only in their numbers as one, with the range of each number; the most frequent first."""
    kinds: dict[str, list[list[str]]] = {}
    for text in texts:
        kinds.setdefault(NUMBER.sub("{}", text.replace("{", "(").replace("}", ")")), []).append(NUMBER.findall(text))
    rows = [(kind.format(*map(_range, zip(*found, strict=True))), len(found)) for kind, found in kinds.items()]
    return sorted(rows, key=lambda row: -row[1])


def _range(numbers: Sequence[str]) -> str:
    """`91–98` of several numbers, as they were printed but with separated thousands."""
    ends = [min(numbers, key=_value), max(numbers, key=_value)]
    return "–".join(dict.fromkeys(end if "." in end else f"{int(_value(end)):,}" for end in ends))


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _first_lines(record: WindowRecord) -> list[str]:
    return [reason.splitlines()[0] for reason in record.reasons]


def _folded(title: str, what: str, windows: Sequence[Sequence[str]]) -> list[Part]:
    """A folded table of the texts of these windows, which may have several; nothing without windows."""
    rows = [[text, f"{n:,}"] for text, n in grouped(itertools.chain.from_iterable(windows))]
    return [Folded(f"{title} ({len(windows):,})", [Table([what, "windows"], rows)])] if rows else []
