"""Numbers as text."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return "∞" if math.isinf(value) else "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(value: float, low: float, high: float) -> str:
    """`0.913 (0.890 – 0.942)`."""
    return f"{value:.3f} ({low:.3f} – {high:.3f})"


def interval(value: float | None, low: float, high: float) -> str:
    """A value with its interval; empty without a value."""
    return "" if value is None else f"{number(value)} ({number(low)} – {number(high)})"


def minimum_effect(difference: float) -> str:
    """A minimum detectable effect in percent; not exact above 1000 %."""
    return f"{difference:.1%}" if difference < 10 else "more than 1000%"


def p_value(p: float) -> str:
    """Three digits; a dash for NaN."""
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
