"""Which servers are installed, and the installation of the others."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.schema import suggestion
from zonda_lab.servers import ADAPTERS, Adapter, InstalledServer


def find_servers(
    given: Sequence[str], find: Callable[[Adapter, str, Path | None], InstalledServer] = Adapter.installed
) -> tuple[dict[str, InstalledServer], dict[str, str]]:
    """The installed servers by label, and for each other server the reason why it is missing."""
    installed: dict[str, InstalledServer] = {}
    absent: dict[str, str] = {}
    for name, adapter in ADAPTERS.items():
        try:
            installed[name] = find(adapter, "", None)
        except LabError as error:
            absent[name] = str(error)
    for text in given:
        label, _, where = text.partition("=")
        kind, _, path = where.rpartition(":")
        kind = kind or label
        if not where or kind not in ADAPTERS:
            raise LabError(f"--server {text}: unknown server kind `{kind}`", suggestion(kind, ADAPTERS))
        installed[label] = find(ADAPTERS[kind], label, Path(path))
        absent.pop(label, None)
    return installed, absent


def require_servers(names: Sequence[str], installed: Mapping[str, InstalledServer], absent: Mapping[str, str]) -> None:
    """Servers named on the command line must be installed; missing servers of an experiment file are skipped."""
    for name in names:
        if name in absent:
            raise LabError(*absent[name].split("\n  help: ", 1))
        if name not in installed:
            raise LabError(f"--servers: no server `{name}`", suggestion(name, installed))


def install(names: Sequence[str]) -> int:
    """Installs the Debian packages. Some start their server at once; stopping it is left to the user."""
    packaged = {name: adapter.package.split() for name, adapter in ADAPTERS.items() if adapter.package}
    if unknown := [name for name in names if name not in packaged]:
        raise LabError(f"no package for {unknown[0]}", suggestion(unknown[0], packaged))
    packages = [package for name in names or packaged for package in packaged[name]]
    sudo = ["sudo"] if os.geteuid() else []
    command = [*sudo, "apt-get", "install", "--yes", "--no-install-recommends", *packages, "dnsperf"]
    print(" ".join(command), flush=True)
    return subprocess.run(command, check=False).returncode
