"""What an adapter must know of its server; the base of all of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.server_config import ServerConfig

SYSTEM = "/usr/sbin:/usr/local/sbin:/usr/local/bin"


class Feature(Enum):
    """What a server can do, as far as experiments ask for it."""

    TCP = "TCP"
    TLS = "DNS over TLS"
    SECONDARY = "zone transfers in"
    TRANSFER_OUT = "zone transfers out"
    TSIG = "TSIG"
    XOT_IN = "zone transfers in over TLS"
    XOT_OUT = "zone transfers out over TLS"
    NOTIFY = "NOTIFY out"
    UPDATE = "dynamic update"
    ZONES = "zones"


SERVING = frozenset({Feature.TCP, Feature.ZONES, Feature.SECONDARY, Feature.TRANSFER_OUT, Feature.TSIG, Feature.NOTIFY})


@dataclass(frozen=True)
class InstalledServer:
    """A server that is there: what is run, and which version it says it is."""

    label: str
    adapter: Adapter
    program: Path
    version: str


class Adapter(ABC):
    """One kind of server."""

    name: str
    program: str
    package: str = ""
    options_section: str = "the server section"

    @abstractmethod
    def features(self, version: str) -> frozenset[Feature]:
        """What that version can do."""

    @abstractmethod
    def files(self, config: ServerConfig) -> dict[str, str]:
        """Configuration: name below `setup.directory` -> text."""

    @abstractmethod
    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        """Starts the server in the foreground."""

    def reload_command(self, config: ServerConfig) -> list[str | Path]:  # noqa: ARG002
        """Has it read changed zone files; empty: SIGHUP does."""
        return []

    @abstractmethod
    def version_command(self, program: Path) -> list[str | Path]:
        """Prints the version."""

    def find(self, path: Path | None = None) -> Path:
        """The program: as given, on PATH or in the system's folders."""
        found = shutil.which(path or self.program, path=os.environ.get("PATH", "") + ":" + SYSTEM)
        if found is None:
            mend = (
                f"`zonda-lab servers --install {self.name}` installs it"
                if self.package
                else "give its path with --server"
            )
            raise LabError(f"{self.name}: no program {path or self.program}", mend)
        return Path(found).resolve()

    def installed(self, label: str = "", path: Path | None = None) -> InstalledServer:
        """The server with its version; raises if it is not there."""
        program = self.find(path)
        done = subprocess.run(self.version_command(program), capture_output=True, text=True, check=False)
        return InstalledServer(label or self.name, self, program, version_in(done.stdout + done.stderr))

    def prepare(self, config: ServerConfig) -> None:
        """Writes the configuration."""
        config.directory.mkdir(parents=True, exist_ok=True)
        for name, text in self.files(config).items():
            path = config.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def version_in(printed: str) -> str:
    """The version that a program printed."""
    match = re.search(r"\d+\.\d+(?:\.\d+)?[\w.+~-]*", printed)
    return match[0] if match else "unknown"


def at_least(version: str, *wanted: int) -> bool:
    """Is `version` that or newer?"""
    return tuple(int(part) for part in re.findall(r"\d+", version)[: len(wanted)]) >= wanted


def file_of(zone_name: str) -> str:
    """A file name for a zone that a secondary stores."""
    return (zone_name.rstrip(".") or "root") + ".zone"
