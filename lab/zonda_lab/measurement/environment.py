"""The test environment: this machine, in network namespaces; `fleet.network.Fleet` uses several machines."""

import hashlib
from pathlib import Path
from typing import Any

from zonda_lab.experiments.definition import Settings
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.rig import machine_info
from zonda_lab.rig.host import Network
from zonda_lab.rig.namespaces import NamespaceNetwork
from zonda_lab.servers import Adapter, InstalledServer


class Environment:
    """This machine as test environment."""

    def network(self, settings: Settings) -> Network:
        """The network of one start."""
        return NamespaceNetwork(settings.rig, settings.primary.addresses if settings.primary.name else 0)

    def installed(self, adapter: Adapter, label: str = "", path: Path | None = None) -> InstalledServer:
        """The installed server; raises if it is missing."""
        return adapter.installed(label, path)

    def digest(self, installed: InstalledServer) -> str:
        """SHA-256 of a server's program."""
        return hashlib.sha256(installed.program.read_bytes()).hexdigest()

    def generator_digest(self, generator: LoadGenerator) -> str:
        """SHA-256 of the load generator's program, as it runs where load is generated."""
        return hashlib.sha256(generator.program.read_bytes()).hexdigest()

    def equip(self, generator: LoadGenerator) -> None:
        """Makes the load generator available where load is generated."""

    def describe(self) -> dict[str, Any]:
        """The machines, for the manifest."""
        return {"machine": machine_info.describe()}
