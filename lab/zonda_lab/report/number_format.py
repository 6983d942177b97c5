"""Numbers as text, with as many digits as their resolution supports."""

import math

EXACT = 0.0  # a resolution: all values are the same


def number(value: float, step: float | None = None) -> str:
    """Rounded to `step`, thousands separated; without a known step three significant digits."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    digits = 6 if step == EXACT else 3
    place = math.floor(math.log10(abs(value))) - digits + 1 if not step else round(math.log10(step))
    text = f"{round(value, -place):,.{max(0, -place)}f}"
    return text if step or "." not in text else text.rstrip("0").rstrip(".")


def resolution(low: float, high: float) -> float | None:
    """The decimal place that an interval supports: two digits of its width; None if an end is open."""
    width = high - low
    if not math.isfinite(width):
        return None
    return 10.0 ** (math.floor(math.log10(width)) - 1) if width > 0 else EXACT


def measured(value: float, low: float, high: float, bound: str = "") -> str:
    """`at least 271,000 (268,000 – ∞)`; without the interval if there is none."""
    step = resolution(low, high)
    words = f"{bound} " if bound in ("at least", "at most") else ""
    if bound == "unknown":
        return "unknown: both values are only bounds"
    if math.isnan(low) or math.isnan(high):
        return f"{words}{number(value, step)}"
    return f"{words}{number(value, step)} ({number(low, step)} – {number(high, step)})"


def difference(ratio: float, low: float, high: float) -> str:
    """An absolute difference of shares, given as exponential: `-1.2 (-1.4 – -1.0) points`."""
    middle, bottom, top = (100 * math.log(each) if each > 0 else -math.inf for each in (ratio, low, high))
    return f"{measured(middle, bottom, top)} points"


def minimum_effect(effect: float, absolute: float = 0.0) -> str:
    """A minimum detectable effect: percent, not exact above 1000 %, or points of absolute differences."""
    if absolute:
        return f"{100 * math.log1p(effect):.3g} points"
    return f"{effect:.1%}" if effect < 10 else "more than 1000%"


def margin_text(margin: float, absolute: float = 0.0) -> str:
    """A margin of equivalence: percent, or points of absolute differences."""
    return f"{100 * absolute:.3g} points" if absolute else f"{margin:.1%}"


def p_value(p: float) -> str:
    """Three digits; a dash for NaN."""
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
