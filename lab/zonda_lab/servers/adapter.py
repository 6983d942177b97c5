"""The base class of server adapters."""

import functools
import os
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.servers.config import ServerConfig, ZonePolicy

# Equal for all servers that are tuned.
RETRY_S = 1  # after a failed transfer
RETRY_WHY = f"a failed transfer is tried again after {RETRY_S} s, as by all servers"
SYSTEM = "/usr/sbin:/usr/local/sbin:/usr/local/bin"


class Feature(Enum):
    """Server features that experiments require."""

    TCP = "TCP"
    TLS = "DNS over TLS"
    QUIC = "DNS over QUIC"
    SECONDARY = "zone transfers in"
    TRANSFER_OUT = "zone transfers out"
    TSIG = "TSIG"
    XOT_IN = "zone transfers in over TLS"
    XOT_OUT = "zone transfers out over TLS"
    NOTIFY = "NOTIFY out"
    UPDATE = "dynamic update"
    ZONES = "zones"


SERVING = frozenset({Feature.TCP, Feature.ZONES, Feature.SECONDARY, Feature.TRANSFER_OUT, Feature.TSIG, Feature.NOTIFY})
OVER_TLS = frozenset({Feature.TLS, Feature.XOT_IN, Feature.XOT_OUT})


@dataclass(frozen=True)
class InstalledServer:
    """An installed server: its program and version."""

    label: str
    adapter: "Adapter"
    program: Path
    version: str

    @functools.cached_property
    def features(self) -> frozenset[Feature]:
        """What it can do."""
        return self.adapter.features(self.version) | self.adapter.built_in(self.program)


@dataclass(frozen=True)
class TunedLine:
    """A line of a configuration that differs from the server's default, and why the lab sets it."""

    text: str
    why: str


class Adapter(ABC):
    """One kind of server."""

    name: str
    program: str
    package: str = ""
    version_flag: str = "--version"
    arguments: tuple[str, ...] = ()  # before the path of the configuration file
    config_file: str = ""
    always: frozenset[Feature] = SERVING  # features of every version
    in_both: tuple[TunedLine, ...] = ()  # the lines of its configuration that both conditions have
    tls_since: tuple[int, ...] = ()  # first version with TLS in both directions; empty: none

    def features(self, version: str) -> frozenset[Feature]:
        """The features of that version."""
        has_tls = bool(self.tls_since) and at_least(version, *self.tls_since)
        return self.always | (OVER_TLS if has_tls else frozenset())

    def built_in(self, program: Path) -> frozenset[Feature]:  # noqa: ARG002
        """The features that depend on how the program was built."""
        return frozenset()

    @abstractmethod
    def files(self, config: ServerConfig) -> dict[str, str]:
        """Configuration files: path relative to `config.directory` -> text."""

    def tuning(self, config: ServerConfig) -> list[TunedLine]:  # noqa: ARG002
        """What the condition `tuned` changes; what means the same has the same value in every adapter."""
        return []

    def tuned(self, config: ServerConfig) -> list[str]:
        """The lines of `tuning`, if this configuration is tuned."""
        return [line.text for line in self.tuning(config)] if config.tuned else []

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        """The command that starts the server in the foreground."""
        return [program, *self.arguments, config.directory / self.config_file]

    def reload_command(self, config: ServerConfig) -> list[str | Path]:  # noqa: ARG002
        """The command that reloads changed zone files; empty: SIGHUP."""
        return []

    def find(self, path: Path | None = None) -> Path:
        """The program: at the given path, on PATH or in the system folders."""
        found = shutil.which(path or self.program, path=os.environ.get("PATH", "") + ":" + SYSTEM)
        if found is None:
            install = f"`zonda-lab servers --install {self.name}` installs it"
            help_text = install if self.package else "give its path with --server"
            raise LabError(f"{self.name}: no program {path or self.program}", help_text)
        return Path(found).resolve()

    def installed(self, label: str = "", path: Path | None = None) -> InstalledServer:
        """The installed server; raises if it is missing."""
        program = self.find(path)
        return InstalledServer(label or self.name, self, program, version_in(printed([program, self.version_flag])))

    def prepare(self, config: ServerConfig) -> None:
        """Writes the configuration files."""
        config.directory.mkdir(parents=True, exist_ok=True)
        for name, text in self.files(config).items():
            path = config.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


class UnusableAdapter(Adapter):
    """Stands for an adapter of another package that cannot be loaded; `zonda-lab servers` shows why."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self._why = name, why

    def find(self, path: Path | None = None) -> Path:  # noqa: ARG002
        raise LabError(f"{self.name}: no adapter: {self._why}", "repair or uninstall the package that provides it")

    def files(self, config: ServerConfig) -> dict[str, str]:  # noqa: ARG002
        return {}


def printed(command: Sequence[str | Path]) -> str:
    """What a command prints, errors included."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def version_in(text: str) -> str:
    """The version in the output of a program."""
    match = re.search(r"\d+\.\d+(?:\.\d+)?[\w.+~-]*", text)
    return match[0] if match else "unknown"


def at_least(version: str, *wanted: int) -> bool:
    """Whether `version` is at least `wanted`."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[: len(wanted)]) >= wanted


def common_lines(lines: Mapping[ZonePolicy, list[str]]) -> tuple[list[str], dict[ZonePolicy, list[str]]]:
    """The lines that all policies have, which are written once for all zones, and those that each has besides."""
    first = next(iter(lines.values()), [])
    common = [line for line in first if all(line in others for others in lines.values())]
    return common, {policy: [line for line in own if line not in common] for policy, own in lines.items()}


def file_of(zone_name: str) -> str:
    """A file name for a zone that a secondary stores."""
    return (zone_name.rstrip(".") or "root") + ".zone"
