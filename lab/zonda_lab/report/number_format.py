"""Figures as text."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """Three significant digits, thousands apart."""
    if value == 0 or not math.isfinite(value):
        return "∞" if math.isinf(value) else "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(value: float, low: float, high: float) -> str:
    """`0.913 (0.890 – 0.942)`."""
    return f"{value:.3f} ({low:.3f} – {high:.3f})"


def interval(value: float | None, low: float, high: float) -> str:
    """A value with its interval; nothing if there is none."""
    return "" if value is None else f"{number(value)} ({number(low)} – {number(high)})"


def least(difference: float) -> str:
    """The least relative difference that would have been seen; beyond a tenfold one the figure says nothing."""
    return f"{difference:.1%}" if difference < 10 else "a tenfold one"


def p_value(p: float) -> str:
    """Three digits; a dash where there is none."""
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
