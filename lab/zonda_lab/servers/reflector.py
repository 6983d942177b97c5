"""Echo and null: servers without any DNS in them, which mark the limit of the machine and of the generator."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.server_config import ServerConfig
from zonda_lab.servers.adapter import Adapter, Feature

SOURCE = Path(__file__).with_name("reflector.c")


class Echo(Adapter):
    """Sends every query back with the answer bit set, by batched system calls: the limit for a server on sockets."""

    name, program, mode = "echo", "reflector", "echo"

    def features(self, version: str) -> frozenset[Feature]:  # noqa: ARG002
        """Everything is the same to it; it has no zones, so its answers are not checked."""
        return frozenset({Feature.TCP})

    def find(self, path: Path | None = None) -> Path:
        """As given, or compiled once into the cache."""
        return super().find(path) if path else compiled()

    def version_command(self, program: Path) -> list[str | Path]:
        """Its source is its version."""
        return [program, "--version"]

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        """ADDRESS PORT MODE and faults."""
        return [program, config.endpoint.address, str(config.endpoint.port), self.mode, *config.options]

    def files(self, config: ServerConfig) -> dict[str, str]:  # noqa: ARG002
        """None."""
        return {}


class Null(Echo):
    """Reads everything and answers only SOA, so that it can be seen to be ready: the limit of the generator."""

    name, mode = "null", "null"


def compiled() -> Path:
    """The reflector, built from its source with the system's compiler if it is not there yet."""
    text = SOURCE.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zonda-lab"
    target = cache / f"reflector-{hashlib.sha256(text).hexdigest()[:12]}"
    if target.exists():
        return target
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise LabError("echo: no C compiler", "install one (Debian: apt-get install gcc libc6-dev)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        built = Path(scratch) / "reflector"
        done = subprocess.run(
            [compiler, "-O2", "-Wall", "-Wextra", "-o", built, SOURCE], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise LabError(f"echo: {SOURCE.name} does not compile", done.stderr.strip())
        built.rename(target)
    return target
