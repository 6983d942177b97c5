"""Echo and sink: servers without zones in `zonda-load`, which measure the limits of sockets and of the generator."""

from pathlib import Path

from zonda_lab.generator_program import zonda_load
from zonda_lab.servers.adapter import Adapter, Feature
from zonda_lab.servers.config import ServerConfig

DNS_OCTETS = 200  # length of an answer: that of a small referral


class Echo(Adapter):
    """Answers every query with a copy of itself: the limit for a server on sockets."""

    name, program, mode = "echo", "zonda-load", "echo"
    always = frozenset({Feature.TCP, Feature.TLS})  # without zones, answers are not checked

    def find(self, path: Path | None = None) -> Path:
        """At the given path, or the load generator of this tree."""
        return super().find(path or zonda_load())

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        here, own = config.endpoint, config.certificate
        with_tls: list[object] = (
            ["--tls-port", here.tls_port, "--cert", own.certificate, "--key", own.key] if own else []
        )
        fixed: list[object] = ["--listen", here.address, "--port", here.port, "--answer-octets", DNS_OCTETS]
        if config.workers > 1:
            fixed += ["--cpus", ",".join(map(str, config.cpus[: config.workers]))]
        words = [word for line in config.options for word in line.split()]
        return [program, self.mode, *(str(word) for word in (*fixed, *with_tls)), *words]

    def files(self, config: ServerConfig) -> dict[str, str]:  # noqa: ARG002
        return {}


class Sink(Echo):
    """Discards all queries except SOA (for readiness probes): the limit of the load generator."""

    name = mode = "sink"
