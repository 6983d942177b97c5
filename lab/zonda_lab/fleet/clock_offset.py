"""The clock offset of a host, from round trips that each bound it from both sides."""

from collections.abc import Iterable
from dataclasses import dataclass

from zonda_lab.errors import LabError


@dataclass(frozen=True)
class Exchange:
    """One round trip: our clock at sending, the host's clock at answering, our clock at receiving; seconds."""

    sent: float
    there: float
    received: float


@dataclass(frozen=True)
class ClockOffset:
    """The host's clock minus ours, with its uncertainty; seconds."""

    offset_s: float
    uncertainty_s: float
    round_trip_s: float


def estimate(exchanges: Iterable[Exchange]) -> ClockOffset:
    """The offset consistent with all round trips: the host read its clock between `sent` and `received`."""
    known = list(exchanges)
    low, high = max(e.there - e.received for e in known), min(e.there - e.sent for e in known)
    if low > high:
        raise LabError("a clock went wrong while it was read", "is the machine suspended, or moved to another host?")
    return ClockOffset((low + high) / 2, (high - low) / 2, min(e.received - e.sent for e in known))


def drift_ppm(earlier: ClockOffset, later: ClockOffset, seconds: float) -> tuple[float, float]:
    """How much faster the host's clock runs, in ppm, and its uncertainty."""
    uncertainty_s = earlier.uncertainty_s + later.uncertainty_s
    return (later.offset_s - earlier.offset_s) / seconds * 1e6, uncertainty_s / seconds * 1e6
