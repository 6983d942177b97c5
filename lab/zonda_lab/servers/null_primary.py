"""The null primary of zonda-load: transfers from messages encoded in advance, so that it does not limit a secondary."""

from pathlib import Path

from zonda_lab.errors import UnsupportedError
from zonda_lab.generator_program import zonda_load
from zonda_lab.servers.adapter import Adapter, Feature
from zonda_lab.servers.config import ServerConfig

ZONES = "zones.txt"


class NullPrimary(Adapter):
    """`zonda-load xfr serve`: answers SOA queries and transfers only, and may change its zones."""

    name, program = "null-primary", "zonda-load"
    always = frozenset({Feature.TRANSFER_OUT, Feature.XOT_OUT, Feature.TSIG})

    def find(self, path: Path | None = None) -> Path:
        """At the given path, or the load generator of this tree."""
        return super().find(path or zonda_load())

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        if config.more_addresses:
            raise UnsupportedError(f"{self.name} has one address", "choose another `primary.name`")
        here, own, key = config.endpoint, config.certificate, config.tsig
        tls: list[str | Path] = []
        if own:
            tls = ["--tls-port", str(here.tls_port), "--cert", own.certificate, "--key", own.key]
        signed = ["--tsig", f"{key.algorithm}:{key.name}:{key.secret}"] if key else []
        place: list[str | Path] = [
            "--listen",
            here.address,
            "--port",
            str(here.port),
            "--zones",
            config.directory / ZONES,
        ]
        return [program, "xfr", "serve", *place, *tls, *signed, *_changes(config)]

    def files(self, config: ServerConfig) -> dict[str, str]:
        return {ZONES: "".join(f"{zone.name} {zone.file}\n" for zone in config.zones)}


def _changes(config: ServerConfig) -> list[str]:
    """The options for zones that change."""
    if not config.changes_per_s:
        return []
    secondaries = [f"{secondary.address}:{secondary.port}" for secondary in config.notify]
    notify = ["--notify", ",".join(secondaries)] if secondaries else []
    return ["--change-every", f"{1000 / config.changes_per_s:g}", *notify]
