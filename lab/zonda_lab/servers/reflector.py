"""Echo and null: servers without DNS, to measure the limits of the machine and of the load generator."""

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
    """Returns every query with QR set, using batched system calls: the limit for a server on sockets."""

    name, program, mode = "echo", "reflector", "echo"
    always = frozenset({Feature.TCP})  # without zones, answers are not checked

    def find(self, path: Path | None = None) -> Path:
        """At the given path, or compiled into the cache."""
        return super().find(path) if path else compiled()

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        return [program, config.endpoint.address, str(config.endpoint.port), self.mode, *config.options]

    def files(self, config: ServerConfig) -> dict[str, str]:  # noqa: ARG002
        return {}


class Null(Echo):
    """Discards all queries except SOA (for readiness probes): the limit of the load generator."""

    name, mode = "null", "null"


def compiled() -> Path:
    """Compiles the reflector with the system's C compiler, unless cached."""
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
            raise LabError(f"echo: {SOURCE.name} does not compile", detail=done.stderr.strip())
        built.rename(target)
    return target
