"""A load generator: command lines for jobs, and the result of its output."""

import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from zonda_lab.errors import UnsupportedError
from zonda_lab.load.jobs import HoldJob, PeakSearch, ProbeJob, PullJob, QueryJob, UpdateJob
from zonda_lab.load.result import LoadResult

GRACE_S = 20.0  # after its scheduled end, before the generator is considered hung


class LoadGenerator(ABC):
    """A load generator."""

    name: str
    program: Path
    version: str

    @abstractmethod
    def query(self, job: QueryJob) -> list[str | Path]:
        """The command line for queries."""

    @abstractmethod
    def parse(self, output: str, job: QueryJob) -> LoadResult:
        """Parses the output of the `query` command."""

    def find_peak(self, job: QueryJob, search: PeakSearch) -> list[str | Path]:
        """The command line for a peak search that starts at the rate of the job."""
        requested = f"{', '.join(search.objectives)} over {job.traffic.transport} requested"
        raise UnsupportedError(f"{self.name} has no peak search ({requested})", "use zonda-load")

    def probe(self, job: ProbeJob) -> list[str | Path]:
        """The command line for probing when zones are answered."""
        raise UnsupportedError(f"{self.name} cannot probe zones ({job.zones} requested)", "use zonda-load")

    def hold(self, job: HoldJob) -> list[str | Path]:
        """The command line for held connections."""
        raise UnsupportedError(
            f"{self.name} cannot hold idle connections ({job.connections} requested)", "use zonda-load"
        )

    def pull(self, job: PullJob) -> list[str | Path]:
        """The command line for transfers."""
        raise UnsupportedError(f"{self.name} cannot transfer zones ({job.transport} requested)", "use zonda-load")

    def update(self, job: UpdateJob) -> list[str | Path]:
        """The command line for dynamic updates."""
        raise UnsupportedError(f"{self.name} cannot send updates ({job.zone} requested)", "use zonda-load")


def version_of(command: Sequence[str | Path]) -> str:
    """The first version number that a command prints."""
    match = re.search(r"\d+\.\d+[\w.+-]*", printed(command))
    return match[0] if match else "unknown"


def printed(command: Sequence[str | Path]) -> str:
    """What a command prints, errors included."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
