"""Numbers as text, with as many digits as their resolution supports."""

import math
import statistics
from collections.abc import Sequence

from zonda_lab.statistics.ratio_effect import Effect

NONE = "–"  # where there is no value
EXACT, EXACT_DIGITS = 0.0, 4  # a resolution: all values are the same; whole numbers have all their digits
MOST_DIGITS = 6  # significant ones, however narrow the interval
POINT_DIGITS = 3  # decimal places of a difference of shares in points
# Kinds of bounds that leave nothing to print.
WITHOUT_VALUE = {
    "unknown": "unknown, as both values are only bounds",
    "unequal": "not comparable: unequal shares answered",
}


def number(value: float, step: float | None = None) -> str:
    """Rounded to `step`, thousands separated; without a known step three significant digits."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    digits = EXACT_DIGITS if step == EXACT else 3
    place = math.floor(math.log10(abs(value))) - digits + 1 if not step else round(math.log10(step))
    place = min(place, 0) if step == EXACT else place
    text = f"{round(value, -place) + 0.0:,.{max(0, -place)}f}"  # adding 0.0 takes the sign from a zero
    return text if step or "." not in text else text.rstrip("0").rstrip(".")


def resolution(low: float, high: float) -> float | None:
    """The decimal place that an interval supports: two digits of its width; None if an end is open.

    One digit of the lower end, if that is positive: in a wide interval a value near it would be printed as 0.
    """
    width = high - low
    if not math.isfinite(width):
        return None
    if width <= 0:
        return EXACT
    finest = math.floor(math.log10(max(abs(low), abs(high)))) - MOST_DIGITS + 1
    if width < 10.0**finest:
        return EXACT
    place = math.floor(math.log10(width)) - 1
    return 10.0 ** max(min(place, math.floor(math.log10(low))) if low > 0 else place, finest)


def interval_text(low: float, high: float, step: float | None = None) -> str:
    """`268,000 – 280,000`; `≥ 268,000` if the upper end is open, a dash if there is no interval.

    No ratio is below 0, so an interval of ratios from 0 to infinity has no bound at either end.
    """
    if math.isnan(low) or math.isnan(high):
        return NONE
    if math.isinf(high):
        return "unbounded" if math.isinf(low) or low == 0 else f"≥ {number(low, step)}"
    return f"≤ {number(high, step)}" if math.isinf(low) else f"{number(low, step)} – {number(high, step)}"


def measured(value: float, low: float, high: float, bound: str = "", unit: str = "") -> str:
    """`at least 271,000 q/s (≥ 268,000)`; without the interval if there is none."""
    if bound in WITHOUT_VALUE:
        return WITHOUT_VALUE[bound]
    step = resolution(low, high)
    words = f"{bound} " if bound else ""
    interval = interval_text(low, high, step)
    return f"{words}{number(value, step)} {unit}".rstrip() + (f" ({interval})" if interval != NONE else "")


def effect_text(effect: Effect, absolute: float) -> str:
    """A ratio with its interval, or an absolute difference, given as exponential: `-1.2 (-1.4 – -1.0) points`."""
    ends = (effect.ratio, effect.low, effect.high)
    if not absolute:
        return measured(*ends, effect.bound)
    middle, low, high = (_points(end) for end in ends)
    text = measured(middle, low, high, effect.bound)
    return text if effect.bound in WITHOUT_VALUE else f"{text} points"


def _points(exponential: float) -> float:
    """A difference of shares in points; zero if it is smaller than anyone would read."""
    points = 100 * math.log(exponential) if exponential > 0 else -math.inf
    return points if round(abs(points), POINT_DIGITS) else 0.0


def minimum_effects(effects: Sequence[float], absolute: float = 0.0) -> str:
    """`median minimum detectable effect 1.2%`: each row of a table has its own."""
    median = "median " if len(effects) > 1 else ""
    return f"{median}minimum detectable effect {minimum_effect(statistics.median(effects), absolute)}"


def minimum_effect(effect: float, absolute: float = 0.0) -> str:
    """Not exact below 0.1 % and above 1000 %; in points of absolute differences; a dash for values that do not vary."""
    if not effect or math.isnan(effect):
        return NONE
    if absolute:
        points = 100 * math.log1p(effect)
        return f"{points:.3g} points" if round(points, POINT_DIGITS) else f"< {10**-POINT_DIGITS} points"
    return "< 0.1%" if effect < 0.001 else f"{effect:.1%}" if effect < 10 else "more than 1000%"


def span_text(low: object, high: object) -> str:
    """`3 to 5`; `3` if both are the same."""
    return f"{low}" if low == high else f"{low} to {high}"


def margin_text(margin: float, absolute: float = 0.0) -> str:
    """A margin of equivalence: percent, or points of absolute differences."""
    return f"{100 * absolute:.3g} points" if absolute else f"{margin:.1%}"


def share_text(share: float) -> str:
    """`3.4%`; a dash for NaN."""
    return NONE if math.isnan(share) else f"{share:.1%}"


def p_value(p: float) -> str:
    """Three digits; a dash for NaN."""
    return NONE if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
