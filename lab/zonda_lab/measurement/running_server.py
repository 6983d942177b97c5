"""A server that the lab has started."""

from dataclasses import dataclass, field
from typing import Any

from zonda_lab.rig.process import Program
from zonda_lab.servers import Feature, InstalledServer
from zonda_lab.servers.config import ServerConfig


@dataclass
class Server:
    """A running server."""

    installed: InstalledServer
    config: ServerConfig
    process: Program
    first_answer_s: float = 0.0
    sockets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def checked(self) -> bool:
        """Whether its answers can be checked; those of an echo cannot."""
        return Feature.ZONES in self.installed.adapter.features(self.installed.version)
