"""Zonda."""

import os
from pathlib import Path

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, SERVING, Adapter, Feature, TunedLine
from zonda_lab.servers.config import Primary, ServerConfig, Zone

BUILT = Path(__file__).resolve().parents[3] / "target/release/zonda"


class Zonda(Adapter):
    """zonda.toml(5); threads, reload by SIGHUP."""

    name, program = "zonda", "zonda"
    arguments, config_file = ("serve", "--config"), "zonda.toml"
    always, tls_since = SERVING | {Feature.UPDATE}, (0, 1)

    def find(self, path: Path | None = None) -> Path:
        """At the given path, in $ZONDA, built in this tree, or on PATH."""
        given = path or (Path(os.environ["ZONDA"]) if "ZONDA" in os.environ else None)
        return super().find(given or (BUILT if BUILT.exists() else None))

    def files(self, config: ServerConfig) -> dict[str, str]:
        parts = [self._server(config), self._key(config), *(self._zone(config, zone) for zone in config.zones)]
        return {self.config_file: "".join(parts)}

    def tuning(self, config: ServerConfig) -> list[TunedLine]:  # noqa: ARG002
        return [TunedLine(f"{key} = {RETRY_S}", RETRY_WHY) for key in ("min-retry-s", "max-retry-s")]

    def _server(self, config: ServerConfig) -> str:
        lines = [
            "[server]",
            f"listen = {listen(config, config.endpoint.port)}",
            f"workers = {config.workers}",
            f"tcp-workers = {config.workers}",
            f"tcp-connections = {config.tcp_clients}",
            f"tcp-connections-per-client = {config.tcp_clients}",
            f"tcp-idle-timeout-ms = {config.tcp_idle_s * 1000}",
            f'state-dir = "{config.directory}"',
        ]
        if own := config.certificate:
            lines.append(f"listen-tls = {listen(config, config.endpoint.tls_port)}")
            lines += [f'tls-cert = "{own.certificate}"', f'tls-key = "{own.key}"']
        if config.authority:
            lines.append(f'tls-ca = "{config.authority.certificate}"')
        return text([*lines, *config.options])

    def _key(self, config: ServerConfig) -> str:
        key = config.tsig
        if key is None:
            return ""
        return text(["[[key]]", f'name = "{key.name}"', f'algorithm = "{key.algorithm}"', f'secret = "{key.secret}"'])

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        trusted = f'[{{ key = "{config.tsig.name}" }}]' if config.tsig else '["0.0.0.0/0"]'
        lines = ["[[zone]]", f'name = "{zone.name}"', f"allow-transfer = {trusted}"]
        if zone.primary:
            lines += [f"primaries = [{self._primary(config, zone.primary)}]", 'allow-notify = ["0.0.0.0/0"]']
            lines += self.tuned(config)
        else:
            lines.append(f'file = "{zone.file}"')
        if config.updates:
            lines.append(f"allow-update = {trusted}")
        if config.notify:
            lines.append("notify = [" + ", ".join(f'"{to.address}:{to.port}"' for to in config.notify) + "]")
        return text(lines)

    def _primary(self, config: ServerConfig, primary: Primary) -> str:
        fields = [f'address = "{primary.endpoint.address}:{primary.port}"']
        if config.tsig:
            fields.append(f'key = "{config.tsig.name}"')
        if primary.tls:
            fields.append(f'tls = "{primary.tls.name}"')
        return f"{{ {', '.join(fields)} }}"


def listen(config: ServerConfig, port: int) -> str:
    """All addresses with this port."""
    return "[" + ", ".join(f'"{address}:{port}"' for address in config.addresses) + "]"


def text(lines: list[str]) -> str:
    """One line each."""
    return "".join(f"{line}\n" for line in lines)
