"""Where measurements are made: on this machine, in namespaces; `fleet.network.Fleet` is the same on several."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from zonda_lab import machine_info
from zonda_lab.experiment import Settings
from zonda_lab.host import Network
from zonda_lab.load_generator import LoadGenerator
from zonda_lab.namespaces import NamespaceNetwork
from zonda_lab.servers import Adapter, InstalledServer


class Environment:
    """This machine."""

    def network(self, settings: Settings) -> Network:
        """The network of one start: both ends on this machine."""
        return NamespaceNetwork(settings.rig, settings.primary.addresses if settings.primary.name else 0)

    def installed(self, adapter: Adapter, label: str = "", path: Path | None = None) -> InstalledServer:
        """A server as it is where servers run; raises if it is not there."""
        return adapter.installed(label, path)

    def digest(self, installed: InstalledServer) -> str:
        """SHA-256 of a server's program."""
        return hashlib.sha256(installed.program.read_bytes()).hexdigest()

    def equip(self, generator: LoadGenerator) -> None:
        """Makes sure that the generator is where load is made."""

    def describe(self) -> dict[str, Any]:
        """For the manifest: the machine of the server, and others if there are."""
        return {"machine": machine_info.describe()}
