"""What a measurement procedure declares: its metrics, and how long it takes."""

from collections.abc import Callable
from dataclasses import dataclass

from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.metrics import OF_EVERY_WINDOW, OF_MEMORY
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.window import Recorder

WINDOW_COST_S = 0.2  # start and end of the generator, telemetry at both ends, the server's sockets
MEMORY_OF_ZONES = (*OF_MEMORY, "bytes_per_record", "bytes_per_zone")


@dataclass(frozen=True)
class Procedure:
    """A way to measure a start."""

    run: Callable[[Harness, Recorder], None]
    metrics: tuple[str, ...]  # besides those of every window
    estimate_s: Callable[[Start], float]  # without starting the network and the server
    retries_itself: bool = False  # repeats invalid windows itself
    is_timed: bool = False  # its windows have a set length
    uses_echo: bool = False  # its windows are compared with an echo server in the same rig

    @property
    def all_metrics(self) -> frozenset[str]:
        """Every metric that its windows may have."""
        return frozenset((*self.metrics, *OF_EVERY_WINDOW))
