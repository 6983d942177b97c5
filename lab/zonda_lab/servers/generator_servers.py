"""The servers in `zonda-load`: echo and sink, which measure the limits of sockets and of the generator; a primary."""

import os
import shutil
from pathlib import Path

from zonda_lab.errors import UnsupportedError
from zonda_lab.servers.adapter import Adapter, Feature
from zonda_lab.servers.config import ServerConfig

BUILT = Path(__file__).resolve().parents[3] / "target/release/zonda-load"
DNS_OCTETS = 200  # length of an answer: that of a small referral
ZONES = "zones.txt"


def zonda_load() -> Path | None:
    """The program: in $ZONDA_LOAD, built in this tree, or on PATH."""
    given = os.environ.get("ZONDA_LOAD", "")
    if Path(given).name == "zonda-load" and shutil.which(given):
        return Path(given)
    found = BUILT if BUILT.exists() else shutil.which("zonda-load")
    return Path(found) if found else None


class Echo(Adapter):
    """Answers every query with a copy of itself: the limit for a server on sockets."""

    name, program = "echo", "zonda-load"
    always = frozenset({Feature.TCP, Feature.TLS, Feature.QUIC})  # without zones, answers are not checked

    def find(self, path: Path | None = None) -> Path:
        """At the given path, or the load generator of this tree."""
        return super().find(path or zonda_load())

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        cpus = ["--cpus", ",".join(map(str, config.cpus[: config.workers]))] if config.workers > 1 else []
        octets = ["--answer-octets", str(DNS_OCTETS)]
        return [program, self.name, *_listening(config), *octets, *cpus, *" ".join(config.options).split()]

    def files(self, config: ServerConfig) -> dict[str, str]:  # noqa: ARG002
        return {}


class Sink(Echo):
    """Discards all queries except SOA (for readiness probes): the limit of the load generator."""

    name = "sink"


class NullPrimary(Echo):
    """Answers SOA queries and transfers only, from messages encoded in advance, so that it limits no secondary.

    It may change its zones.
    """

    name = "null-primary"
    always = frozenset({Feature.TRANSFER_OUT, Feature.XOT_OUT, Feature.TSIG})

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        if config.more_addresses:
            raise UnsupportedError(f"{self.name} has one address", "choose another `primary.name`")
        key, options = config.tsig, list[str]()
        if key:
            options += ["--tsig", f"{key.algorithm}:{key.name}:{key.secret}"]
        if config.changes_per_s:
            options += ["--change-every", f"{1000 / config.changes_per_s:g}"]
            if config.notify:
                options += ["--notify", ",".join(f"{to.address}:{to.port}" for to in config.notify)]
        return [program, "xfr", "serve", *_listening(config), "--zones", config.directory / ZONES, *options]

    def files(self, config: ServerConfig) -> dict[str, str]:
        return {ZONES: "".join(f"{zone.name} {zone.file}\n" for zone in config.zones)}


def _listening(config: ServerConfig) -> list[str | Path]:
    """The options for its address and ports."""
    here, own = config.endpoint, config.certificate
    tls: list[str | Path] = []
    if own:
        quic = ["--quic-port", str(here.quic_port)] if here.quic_port else []
        tls = ["--tls-port", str(here.tls_port), *quic, "--cert", own.certificate, "--key", own.key]
    return ["--listen", here.address, "--port", str(here.port), *tls]
