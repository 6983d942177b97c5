"""A load generator: the command line for queries, and the result of its output."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.experiments.definition import TrafficSpec
from zonda_lab.load.result import LoadResult
from zonda_lab.rig.namespaces import SOURCES
from zonda_lab.servers.config import Certificate, Endpoint
from zonda_lab.zones.workload import Workload

GRACE_S = 20.0  # after its scheduled end, before the generator is considered hung
Command = list[str | Path]


@dataclass(frozen=True)
class QueryJob:
    """Queries at `rate` per second, or in the closed loop of `traffic`."""

    traffic: TrafficSpec
    rate: float
    endpoint: Endpoint
    workload: Workload
    seconds: float
    verify: bool = True
    authority: Certificate | None = None
    source_prefix: str = SOURCES

    @property
    def is_ramp(self) -> bool:
        """Whether the rate changes."""
        return self.traffic.loop == "open" and self.traffic.ramp != 1 and not self.traffic.capture

    @property
    def mean_rate(self) -> float:
        """Queries per second over the whole job."""
        return self.rate * (1 + self.traffic.ramp) / 2 if self.is_ramp else self.rate

    @property
    def files(self) -> list[Path]:
        """The files that the generator reads."""
        capture = [Path(self.traffic.capture)] if self.traffic.capture else []
        authority = [self.authority.certificate] if self.authority else []
        return [*capture, self.workload.queries, self.workload.expectation, *authority]


class LoadGenerator(ABC):
    """A load generator."""

    name: str
    program: Path
    version: str

    @abstractmethod
    def query(self, job: QueryJob) -> Command:
        """The command line for queries."""

    @abstractmethod
    def parse(self, output: str, job: QueryJob) -> LoadResult:
        """Parses the output of the `query` command."""
