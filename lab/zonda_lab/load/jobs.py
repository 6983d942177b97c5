"""What a load generator can be asked to do; each adapter makes a command line of it."""

from dataclasses import dataclass
from pathlib import Path

from zonda_lab.experiments.definition import TrafficSpec
from zonda_lab.rig.namespaces import SOURCES
from zonda_lab.servers.config import Certificate, Endpoint, Tsig
from zonda_lab.zones.workload import Workload


@dataclass(frozen=True)
class QueryJob:
    """Queries at `rate` per second, or in the closed loop of `traffic`."""

    traffic: TrafficSpec
    rate: float
    endpoint: Endpoint
    workload: Workload
    seconds: float
    warm_up_s: float = 0.0
    verify: bool = True
    authority: Certificate | None = None
    source_prefix: str = SOURCES

    @property
    def files(self) -> list[Path]:
        """The files that the generator reads."""
        capture = [Path(self.traffic.capture)] if self.traffic.capture else []
        authority = [self.authority.certificate] if self.authority else []
        return [*capture, self.workload.queries, self.workload.expectation, *authority]


@dataclass(frozen=True)
class PeakSearch:
    """Objectives of a peak search: percentages of answers, or latency limits such as `p99=1ms`."""

    objectives: tuple[str, ...]
    resolution: float  # relative


@dataclass(frozen=True)
class ProbeJob:
    """SOA queries for zones until each is answered, with a serial if given; times are written to `arrivals`."""

    endpoint: Endpoint
    zones: Path
    arrivals: Path
    seconds: float
    serial: int = 0
    rate: float = 20_000.0  # so that probing takes less than a tenth of a server's core


@dataclass(frozen=True)
class HoldJob:
    """Connections opened at a rate and kept open, idle or hostile."""

    transport: str
    endpoint: Endpoint
    connections: int
    rate: float
    seconds: float
    sources: int = 1
    source_prefix: str = SOURCES
    workload: Workload | None = None
    probe_ms: int = 10
    authority: Certificate | None = None
    hostile: str = ""


@dataclass(frozen=True)
class PullJob:
    """Zone transfers whose content is discarded."""

    transport: str
    endpoint: Endpoint
    zones: Path
    tsig: Tsig | None = None
    authority: Certificate | None = None
    parallel: int = 1


@dataclass(frozen=True)
class UpdateJob:
    """Dynamic updates of one zone at a rate."""

    endpoint: Endpoint
    zone: str
    rate: float
    seconds: float
    tsig: Tsig | None = None
