"""A server in a transfer test: starts it with a configuration, publishes zone versions, gives it commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from zonda_lab.servers import ADAPTERS
from zonda_lab.servers.config import ServerConfig, Zone

from names import wire_name
from servers import HOST, ProgramNotFound, Server
from servers import Zone as ServedZone


class Failed(Exception):
    """A check failed; the text says what was expected and what was found."""


class Skipped(Exception):
    """A feature cannot be tested with these servers; the text says why."""


@dataclass(frozen=True)
class Build:
    """One build of a server: its class, the folder of its programs (None: PATH) and its version."""

    kind: type[TransferServer]
    folder: Path | None
    version: str

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, for comparisons."""
        return tuple(map(int, re.findall(r"\d+", self.version)))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its programs, which may need the libraries beside them."""
        if self.folder is None:
            return dict(os.environ)
        folders = [self.folder / "lib", *(self.folder / "lib").glob("*-linux-gnu")]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, folders))}

    def program(self, name: str) -> str:
        """The path of one of the programs of this build; raises `ProgramNotFound`."""
        if self.folder is None:
            path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
        else:
            path = f"{self.folder / 'sbin'}:{self.folder / 'bin'}:{self.folder}"
        if found := shutil.which(name, path=path):
            return found
        raise ProgramNotFound(f"{name} is not in {path}")


class TransferServer(Server):
    """A server that the lab's adapter configures; each subclass knows its control program."""

    programs_needed: tuple[str, ...] = ()  # besides the server itself
    command_timeout_s = 30.0  # until a control program must have succeeded

    def __init__(self, build: Build, folder: Path, config: ServerConfig) -> None:
        self.build, self.folder, self.config = build, folder, config
        self.address = HOST, config.endpoint.port
        self.process = None
        self.zones = [ServedZone(wire_name(z.name).lower(), z.name, z.file) for z in config.zones if z.file is not None]

    def arguments(self) -> list[str]:
        adapter = ADAPTERS[self.name]
        adapter.prepare(self.config)
        return [str(word) for word in adapter.command(Path(self.build.program(adapter.program)), self.config)]

    def reload_zone(self, zone: Zone) -> None:
        """Makes the server read the changed file of a zone."""
        raise NotImplementedError

    def reload_config(self) -> None:
        """Makes the server read its changed configuration."""
        raise NotImplementedError

    def retransfer(self, zone: str) -> None:
        """Makes a secondary transfer the whole zone, whatever its serial."""
        raise NotImplementedError

    def flush(self) -> None:
        """Makes the server write to disk what it needs after a restart; most do so by themselves."""

    def add_member(self, zone: str) -> None:
        """Adds a zone to the produced catalog, if its configuration does not suffice."""

    def remove_member(self, zone: str) -> None:
        """Removes a zone from the produced catalog."""

    @property
    def config_path(self) -> Path:
        return self.folder / ADAPTERS[self.name].config_file

    def zone(self, name: str) -> Zone:
        return next(zone for zone in self.config.zones if zone.name == name)

    def zone_file(self, name: str) -> Path:
        """The file of a zone, which a primary has."""
        file = self.zone(name).file
        assert file is not None, "only primaries have files"
        return file

    def publish(self, name: str, text: str) -> None:
        """Replaces the file of a zone and makes the server read it."""
        write_file(self.zone_file(name), text)
        self.reload_zone(self.zone(name))

    def reconfigure(self, *zones: Zone) -> None:
        """Serves these zones instead."""
        self.config = replace(self.config, zones=zones)
        self.arguments()
        self.reload_config()

    def run(self, program: str, *arguments: str) -> str:
        """Runs a control program until it succeeds, because the server may not be ready; raises `Failed` with its output."""
        deadline = time.monotonic() + self.command_timeout_s
        while True:
            command = [self.build.program(program), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=self.build.environment)
            if done.returncode == 0:
                return done.stdout
            if time.monotonic() >= deadline or self.has_ended():
                raise Failed(f"{' '.join([program, *arguments])}: {(done.stdout + done.stderr).strip()[-400:]}")
            time.sleep(0.2)

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None


def write_file(path: Path, text: str) -> None:
    """Replaces a file at once, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


CANCELLED = threading.Event()  # set when the run is interrupted: every wait then fails


def wait_until(condition: Callable[[], bool], what: Callable[[], str] | str, timeout_s: float) -> None:
    """Waits for a condition; raises `Failed` with a description of what did not happen."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline or CANCELLED.is_set():
            raise Failed(f"{what if isinstance(what, str) else what()} within {timeout_s:.0f} s")
        time.sleep(0.1)
