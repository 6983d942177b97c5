"""What a host's clock shows against ours, from round trips: each one bounds the difference from both sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zonda_lab.errors import LabError


@dataclass(frozen=True)
class Exchange:
    """Our clock when a question left, theirs when it was answered, ours when the answer came; seconds."""

    sent: float
    there: float
    received: float


@dataclass(frozen=True)
class ClockOffset:
    """Theirs minus ours, right to within the uncertainty; seconds."""

    offset_s: float
    uncertainty_s: float
    round_trip_s: float


def estimate(exchanges: Iterable[Exchange]) -> ClockOffset:
    """The differences that all round trips allow: their clock was read after `sent` and before `received`."""
    known = list(exchanges)
    low, high = max(e.there - e.received for e in known), min(e.there - e.sent for e in known)
    if low > high:
        raise LabError("a clock went wrong while it was read", "is the machine suspended, or moved to another host?")
    return ClockOffset((low + high) / 2, (high - low) / 2, min(e.received - e.sent for e in known))


def drift_ppm(earlier: ClockOffset, later: ClockOffset, seconds: float) -> tuple[float, float]:
    """How much faster their clock runs, in millionths, and the uncertainty of that."""
    uncertainty_s = earlier.uncertainty_s + later.uncertainty_s
    return (later.offset_s - earlier.offset_s) / seconds * 1e6, uncertainty_s / seconds * 1e6
