"""Which reasons of an invalid window other load on the machine explains; `measurement.validity` words the reasons."""

from collections.abc import Sequence

LATE_SENDS = "queries left more than 1 ms after their time"  # text printed by zonda-load
DISTURBANCES = (  # parts of the reasons that other load on the machine can cause
    "the hypervisor took",
    "other programs used",
    "something waited for a disk",
    "telemetry came",
    "no telemetry",
    "the generator was",
    "the generator sent",
    "the generator waited",
    "the server waited",
    "scheduled queries were never sent",
    LATE_SENDS,
)


def disturbed(found: Sequence[str]) -> bool:
    """Whether other load on the machine explains all reasons."""
    return bool(found) and all(any(words in reason for words in DISTURBANCES) for reason in found)
