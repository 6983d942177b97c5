"""Checks published claims: a median, a ratio, a ratio of variations, an event, an order, or the shape of a curve."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zonda_lab.analysis import effects
from zonda_lab.analysis.analysis import AaPair, best_of_each_block, conditions, sample_of, valid
from zonda_lab.analysis.effects import MIN_STARTS, Sample
from zonda_lab.experiments.definition import Claim
from zonda_lab.experiments.metrics import METRICS, words
from zonda_lab.results.window_record import WindowRecord, selected
from zonda_lab.statistics import ALPHA, intervals, ratio_effect

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
WITHHELD, NOT_TESTABLE, NOT_MEASURED = "withheld", "not testable here", "not measured"
UPPER_HALF = ("levels off",)  # shapes that are about the upper half of the levels
MIN_LEVELS = 3  # of a shape
NOT_SET = "not set, because "  # begins a note of `rig.namespaces` that ends with the name of a setting


@dataclass(frozen=True)
class ClaimCheck:
    """A published claim and the value measured here; `text` replaces the value where it is no number."""

    claim: Claim
    value: float | None
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    condition: str = ""  # the levels at which it was checked, if there are several
    bound: str = ""
    text: str = ""
    decided: str = ""  # the outcome of an order or an event, which no range decides
    alarm: bool = False  # an A/A pair of its metric differs by more than the margin
    mde: float = math.nan  # minimum detectable effect of a ratio
    lacking: str = ""  # what the claim requires and did not happen
    unmeasured: str = ""  # why no window of its condition is valid
    not_set: tuple[str, ...] = ()  # settings of the claimed level that could not be applied

    @property
    def outcome(self) -> str:
        """Whether the interval lies inside the claimed range, outside it, or across a bound of it."""
        if self.claim.untestable or self.lacking:
            return NOT_TESTABLE
        if self.value is None and not self.decided:
            return NOT_MEASURED
        if self.alarm:
            return WITHHELD
        if self.n < MIN_STARTS or self.claim.unverified:
            return INCONCLUSIVE
        if self.decided:
            return self.decided
        low, high = self.claim.confirming
        if not self.is_detectable:
            return INCONCLUSIVE
        if low <= self.low and self.high <= high:
            return CONFIRMED
        return REFUTED if self.high < low or high < self.low else INCONCLUSIVE

    @property
    def is_detectable(self) -> bool:
        """Whether the effect that was measured, or the limit of the claim next to it, would be found in most runs."""
        if math.isnan(self.mde) or not self.value or self.value < 0:
            return True
        measured = math.log(self.value)
        limits = [math.log(end) for end in self.claim.confirming if 0 < end < math.inf]
        nearest = min(limits, key=lambda limit: abs(limit - measured), default=0.0)
        return max(abs(measured), abs(nearest)) >= math.log1p(self.mde)


def check_claim(records: Sequence[WindowRecord], claim: Claim, aa_pairs: Sequence[AaPair] = ()) -> list[ClaimCheck]:
    """Checks a claim at each combination of the levels that it leaves open: a value over several describes none.

    All measured conditions of a claim are one family: each interval misses its value with 5 % divided by their number.
    Second baselines do not count: the mean of two starts varies less than a single start.
    """
    if claim.untestable:
        return [ClaimCheck(claim, None)]
    records = [record for record in records if not record.copy]
    tried = [r for r in selected(records, **claim.of) if claim.metric in r.metrics or not r.counts]
    levels_of = {words(levels): levels for levels in conditions(tried, _settled(records, claim), ("server.name",))}
    windows = {condition: selected(records, **levels) for condition, levels in levels_of.items()}
    unmeasured = {condition: _unmeasured(found, claim) for condition, found in windows.items()}
    family = sum(not why for why in unmeasured.values())
    done = []
    for condition, levels in levels_of.items():
        if why := unmeasured[condition]:
            done.append(ClaimCheck(claim, None, condition=condition, unmeasured=why))
            continue
        found, alarm = _check(windows[condition], claim, family), _alarmed(claim, aa_pairs, levels)
        lacking, not_set = _lacking(windows[condition], claim), _not_set(windows[condition], claim)
        done.append(replace(found, condition=condition, alarm=alarm, lacking=lacking, not_set=not_set))
    return done


def _unmeasured(records: Sequence[WindowRecord], claim: Claim) -> str:
    """Why a side of the claim has no valid window, by the first reason; empty if both sides have some."""
    for side in (claim.of, claim.to):
        windows = selected(records, **side)
        if not valid(windows, claim.metric):
            reasons = [why for r in windows for why in (r.skipped, *r.reasons, *r.latency_reasons) if why]
            return f"no valid window ({reasons[0].splitlines()[0]})" if reasons else "no window has this metric"
    return ""


def _lacking(records: Sequence[WindowRecord], claim: Claim) -> str:
    """What the claim requires and did not happen."""
    found = []
    for metric, least in claim.requires.items():
        sample = sample_of(selected(records, **(claim.to or claim.of)), metric)
        if sample.values and sample.median()[0] < least:
            found.append(f"{METRICS[metric].title} {sample.median()[0]:,.6g}, at least {least:,.6g} are required")
    return "; ".join(found)


def _not_set(records: Sequence[WindowRecord], claim: Claim) -> tuple[str, ...]:
    """The settings of the claimed level that were not applied, by the notes of its windows."""
    notes = [note for record in selected(records, **claim.of) for note in record.notes if note.startswith(NOT_SET)]
    return tuple(dict.fromkeys(note.rpartition(": ")[2] for note in notes))


def _settled(records: Sequence[WindowRecord], claim: Claim) -> set[str]:
    """The factors that a claim fixes, compares or runs along; an order of highest values is about all windows."""
    along = claim.along or ("server.name" if claim.order else "")
    highest = claim.order and METRICS[claim.metric].better == "higher"
    within = {name for record in records for name in record.within} if highest else ()
    return {*claim.of, *claim.to, along, *within}


def _alarmed(claim: Claim, aa_pairs: Sequence[AaPair], levels: Mapping[str, str]) -> bool:
    """Whether one program differs from itself at levels the claim compares; a single median compares nothing."""
    if not (claim.to or claim.order):
        return False
    about = [claim.of, claim.to, levels]
    return any(
        pair.alarm
        and pair.metric == claim.metric
        and all(levels.get(name, level) == level for levels in about for name, level in pair.levels.items())
        for pair in aa_pairs
    )


def _check(records: Sequence[WindowRecord], claim: Claim, family: int) -> ClaimCheck:
    """One condition of a claim that has `family` conditions."""
    if claim.order:
        return _check_order(records, claim, family)
    if claim.shape:
        return _check_shape(records, claim, family)
    if claim.spread:
        return _check_spread(records, claim, family)
    top = sample_of(selected(records, **claim.of), claim.metric)
    if not top.values:
        return ClaimCheck(claim, None)
    if claim.event:
        return _check_event(claim, top, family)
    if claim.to:
        return _check_ratio(claim, top, sample_of(selected(records, **claim.to), claim.metric), family)
    middle, low, high, bound = top.median(ALPHA / family)
    return ClaimCheck(claim, middle, low, high, len(top.values), bound=bound)


def _check_event(claim: Claim, sample: Sample, family: int) -> ClaimCheck:
    """Confirmed by one start with the event; refuted only if so many starts without it exclude the claimed share."""
    n = len(sample.values)
    count = sum(value < claim.event for value in sample.values.values())
    low, high = intervals.exact_share(count, n, ALPHA / family)
    outcome = CONFIRMED if count else REFUTED if high < claim.low else INCONCLUSIVE
    text = f"{count} of {n} starts ({low:.0%} – {high:.0%})"
    return ClaimCheck(claim, count / n, low, high, n, text=text, decided=outcome)


def _check_ratio(claim: Claim, top: Sample, bottom: Sample, family: int) -> ClaimCheck:
    """No value if one block has a zero: the ratio of the other blocks would be that of a chosen part."""
    blocks = [block for block in top.values if block in bottom.values]
    if not blocks or min(min(top.values[block], bottom.values[block]) for block in blocks) <= 0:
        return ClaimCheck(claim, None)
    below, above = ([sample.values[block] for block in blocks] for sample in (bottom, top))
    lower, upper = ([sample.bounds.get(block, "") for block in blocks] for sample in (bottom, top))
    effect = ratio_effect.paired_effect(below, above, 0.0, family, ALPHA / family)
    bound = effects.bound_of_ratio(lower, upper)
    found = effects.bounded(effect, bound if effects.is_comparable(claim.metric, bottom, top) else "unequal")
    mde = math.nan if found.bound else found.mde
    return ClaimCheck(claim, found.ratio, found.low, found.high, found.n, bound=found.bound, mde=mde)


def _check_spread(records: Sequence[WindowRecord], claim: Claim, family: int) -> ClaimCheck:
    top, bottom = (sample_of(selected(records, **levels), claim.metric) for levels in (claim.of, claim.to))
    n = min(len(top.values), len(bottom.values))
    if n < MIN_STARTS or top.bounds or bottom.bounds:
        return ClaimCheck(claim, None)
    below, above = (list(sample.values.values()) for sample in (bottom, top))
    ratio, low, high = intervals.variation_ratio(below, above, ALPHA / family)
    mde = ratio_effect.minimum_detectable_spread(n, family)
    return ClaimCheck(claim, ratio, low, high, n, mde=mde)


def _check_order(records: Sequence[WindowRecord], claim: Claim, family: int) -> ClaimCheck:
    """Confirmed if each group is significantly above the next one, refuted if one is significantly below.

    An order of which a level is missing is not confirmed.
    """
    factor = claim.along or "server.name"
    levels = list(itertools.chain.from_iterable(_groups(claim.order)))
    ranked = {level: _ranked(records, claim, {factor: level}) for level in levels}
    samples = {level: sample for level, sample in ranked.items() if len(sample.values) >= MIN_STARTS}
    groups = [kept for group in _groups(claim.order) if (kept := [level for level in group if level in samples])]
    pairs = [pair for upper, lower in itertools.pairwise(groups) for pair in itertools.product(upper, lower)]
    if not pairs:
        return ClaimCheck(claim, None)
    tests = len(pairs) * family
    found = [effects.compared(claim.metric, samples[low], samples[high], 0.0, tests) for high, low in pairs]
    measured = ratio_effect.corrected([effect for effect in found if effect])
    decisive = [effect for effect in measured if effects.is_detected(effect, ALPHA / family)]
    above, below = [effect.ratio > 1 for effect in decisive], [effect.ratio < 1 for effect in decisive]
    missing = [level for level in levels if level not in samples]
    complete = len(decisive) == len(pairs) and not missing
    outcome = REFUTED if any(below) else CONFIRMED if all(above) and complete else INCONCLUSIVE
    text = " > ".join(sorted(samples, key=lambda level: -samples[level].median()[0]))
    text += f"; without {', '.join(missing)}" if missing else ""
    return ClaimCheck(claim, None, n=min(len(s.values) for s in samples.values()), text=text, decided=outcome)


def _ranked(records: Sequence[WindowRecord], claim: Claim, level: dict[str, str]) -> Sample:
    """The values of a level; of each start its best window where higher is better: the highest rate of a curve."""
    windows = selected(records, **claim.of, **level)
    if METRICS[claim.metric].better == "higher":
        windows = best_of_each_block(windows, claim.metric)
    return sample_of(windows, claim.metric)


def _groups(order: Sequence[str]) -> list[list[str]]:
    """`["nsd", "yadifa = knot"]`: levels joined by `=` have no order among themselves."""
    return [[level.strip() for level in group.split("=")] for group in order]


def _check_shape(records: Sequence[WindowRecord], claim: Claim, family: int) -> ClaimCheck:
    """The exponent of the metric over the factor (slope of both logarithms), one per block."""
    windows = selected(records, **claim.of)
    curves: dict[int, dict[float, float]] = {}
    levels = dict.fromkeys(record.levels.get(claim.along, "") for record in valid(windows, claim.metric))
    for level in filter(None, levels):
        sample = sample_of(selected(windows, **{claim.along: level}), claim.metric)
        if sample.bounds:
            return ClaimCheck(claim, math.nan, -math.inf, math.inf, len(sample.values), bound="unknown")
        for block, value in sample.values.items():
            curves.setdefault(block, {})[float(level)] = value
    exponents = [found for curve in curves.values() if (found := _exponent(curve, claim.shape)) is not None]
    if not exponents:
        return ClaimCheck(claim, None)
    low, high = intervals.interval(np.asarray(exponents), ALPHA / family)
    middle = float(intervals.hodges_lehmann(exponents))
    return ClaimCheck(claim, middle, low, high, len(exponents))


def _exponent(curve: dict[float, float], shape: str) -> float | None:
    points = sorted((x, y) for x, y in curve.items() if x > 0 and y > 0)
    if len(points) < MIN_LEVELS:
        return None
    if shape in UPPER_HALF:
        points = points[len(points) // 2 :]
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])
