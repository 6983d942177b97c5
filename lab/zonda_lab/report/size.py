"""How large an experiment was: blocks, window length, the effect it could detect, and how the run was cut."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zonda_lab.analysis.analysis import MetricAnalysis
from zonda_lab.analysis.block_plan import sigma_of
from zonda_lab.experiments.definition import AnalysisSpec
from zonda_lab.experiments.metrics import METRICS, factor_words
from zonda_lab.report.number_format import minimum_effects
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.statistics.ratio_effect import MOST_BLOCKS, blocks_needed

TIMED = ("queries", "peak", "updating", "memory")  # procedures whose windows have a set length
FEW = 8  # blocks; below, intervals are wide


def size(
    described: Mapping[str, Any],
    records: Sequence[WindowRecord],
    analysis: AnalysisSpec,
    primary: MetricAnalysis | None,
) -> str:
    """Blocks, windows and detectable effect, and how this run is smaller than the full form."""
    timing = described["settings"]["timing"]
    sizes = [
        f"{timing['blocks']} blocks",
        *_windows(described, records),
        *_power(records, analysis, primary),
        *_cut(described),
    ]
    return "; ".join(sizes) + "."


def _windows(described: Mapping[str, Any], records: Sequence[WindowRecord]) -> list[str]:
    """The length of the windows; of a replay the measured one, as its capture has a length and rate of its own."""
    if described["procedure"] not in TIMED:
        return []
    traffic = described["settings"]["traffic"]
    if not traffic.get("capture"):  # records of format 1 lack it
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
    effects = [c.effect.mde for c in primary.comparisons if not c.effect.bound] if primary else []
    if not effects or primary is None:
        return []
    absolute = METRICS[primary.metric].margin
    text = minimum_effects(effects, absolute)
    sigma = sigma_of(records, analysis)
    if absolute or max(effects) <= analysis.effect or sigma is None:
        return [text]
    comparisons = max(len(stratum.comparisons) for stratum in primary.strata)
    needed = blocks_needed(sigma, analysis.effect, comparisons) or f"more than {MOST_BLOCKS:,}"
    return [f"{text} (on average {analysis.effect:.1%} would need {needed} blocks)"]


def _cut(described: Mapping[str, Any]) -> list[str]:
    timing, full = described["settings"]["timing"], described["timing"]
    sizes = [f"blocks in the full form: {full['blocks']}"] if timing["blocks"] != full["blocks"] else []
    if timing["seconds"] != full["seconds"] and described["procedure"] in TIMED:
        sizes.append(f"windows in the full form: {full['seconds']:g} s")
    for key, unit in (("zones", "zones"), ("records", "records per zone")):
        here, whole = described["settings"]["zones"][key], described["zones"][key]
        if here != whole:
            sizes.append(f"{here:,} {unit} (full form: {whole:,})")
    for name, levels in {**described["factors"], **described["within"]}.items():
        left = [str(level) for level in levels if str(level) not in described["levels"].get(name, map(str, levels))]
        if left:
            sizes.append(f"{factor_words(name)} levels not run: {', '.join(map('“{}”'.format, left))}")
    return [*sizes, f"left out: {described['left_out']}"] if described.get("left_out") else sizes
