"""How large an experiment was: blocks, window length, the effect it could detect, and how the run was cut."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zonda_lab.analysis.analysis import MetricAnalysis
from zonda_lab.analysis.block_plan import prospect_of
from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.experiments.metrics import METRICS, column_words, level_number
from zonda_lab.procedures import PROCEDURES
from zonda_lab.report.number_format import minimum_effects
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.statistics.ratio_effect import MOST_BLOCKS

FEW = 8  # blocks; below, intervals are wide


def size(
    described: Mapping[str, Any],
    records: Sequence[WindowRecord],
    analysis: AnalysisSpec,
    primary: MetricAnalysis | None,
) -> str:
    """Blocks, windows and detectable effect, and how this run is smaller than the full form."""
    sizes = [measured_size(described, records), *_power(records, analysis, primary), *_cut(described)]
    return "; ".join(sizes) + "."


def measured_size(described: Mapping[str, Any], records: Sequence[WindowRecord]) -> str:
    """`6 blocks; windows of 10 s`."""
    timing = described["settings"]["timing"]
    return "; ".join([f"{timing['blocks']} blocks", *_windows(described, records)])


def more_time(records: Sequence[WindowRecord], analysis: AnalysisSpec, primary: MetricAnalysis | None) -> str:
    """Whether the planned effect is detected, and the blocks that it needs on average; empty if unknown."""
    effects = [c.effect.mde for c in primary.comparisons if not c.effect.bound] if primary else []
    if primary is None or not effects or METRICS[primary.metric].margin:
        return ""
    prospect = prospect_of(records, analysis)
    if prospect.sigma is None:
        return ""
    if max(effects) <= analysis.effect:
        return f"{analysis.effect:.1%} is detected"
    needed = prospect.needed
    if needed and needed <= max(c.effect.n for c in primary.comparisons):
        return f"{analysis.effect:.1%} is detected where values vary no more than on average"
    enough = f"{needed:,}" if needed else f"more than {MOST_BLOCKS:,}"
    return f"{analysis.effect:.1%} would need {enough} blocks on average"


def _windows(described: Mapping[str, Any], records: Sequence[WindowRecord]) -> list[str]:
    """The length of the windows; of a replay the measured one, as its capture has a length and rate of its own."""
    if not PROCEDURES[described["procedure"]].is_timed:
        return []
    traffic = described["settings"]["traffic"]
    if not traffic["capture"]:
        return [f"windows of {described['settings']['timing']['seconds']:g} s"]
    replayed = [record for record in records if record.counts and record.window]
    seconds = [record.window[1] - record.window[0] for record in replayed]
    rates = [record.metrics["sent_qps"] for record in replayed if "sent_qps" in record.metrics]
    text = f"{traffic['capture']} at {traffic['speed']:g} times its speed"
    if not seconds or not rates:
        return [f"windows of {text}"]
    return [f"windows of about {np.median(seconds):.0f} s, {np.median(rates):,.0f} queries per second ({text})"]


def _power(records: Sequence[WindowRecord], analysis: AnalysisSpec, primary: MetricAnalysis | None) -> list[str]:
    """The minimum detectable effect of the primary metric, and the blocks that its planned effect needs."""
    if primary is None or not primary.cells:
        return []
    if not primary.comparisons:
        return ["no comparison, so no minimum detectable effect"]
    if not primary.detectable:
        return ["no minimum detectable effect: the values compared are only bounds, or do not vary"]
    text = minimum_effects(primary.detectable, METRICS[primary.metric].margin)
    return [text, *filter(None, [more_time(records, analysis, primary)])]


def _cut(described: Mapping[str, Any]) -> list[str]:
    timing, full = described["settings"]["timing"], described["timing"]
    sizes = [f"blocks in the full form: {full['blocks']}"] if timing["blocks"] != full["blocks"] else []
    if timing["seconds"] != full["seconds"] and PROCEDURES[described["procedure"]].is_timed:
        sizes.append(f"windows in the full form: {full['seconds']:g} s")
    for key, unit in (("zones", "zones"), ("records", "records per zone")):
        here, whole = described["settings"]["zones"][key], described["zones"][key]
        if here != whole:
            sizes.append(f"{here:,} {unit} (full form: {whole:,})")
    for name, levels in {**described["factors"], **described["within"]}.items():
        left = [str(level) for level in levels if str(level) not in described["levels"].get(name, map(str, levels))]
        if left:
            listed = ", ".join(level_number(level) or f"“{level}”" for level in left)
            sizes.append(f"{column_words(name)}: without {listed}")
    return [*sizes, f"left out: {described['left_out']}"] if described.get("left_out") else sizes
