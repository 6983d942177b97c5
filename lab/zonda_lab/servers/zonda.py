"""Zonda."""

from __future__ import annotations

import os
from pathlib import Path

from zonda_lab.server_config import ServerConfig, Zone
from zonda_lab.servers.adapter import Adapter, Feature

BUILT = Path(__file__).resolve().parents[3] / "target/release/zonda"


class Zonda(Adapter):
    """zonda.toml(5); threads, reload by SIGHUP."""

    name, program = "zonda", "zonda"
    arguments, config_file = ("serve", "--config"), "zonda.toml"
    always = frozenset({Feature.TCP, Feature.ZONES, Feature.TRANSFER_OUT})  # no transfers in, NOTIFY or updates yet

    def find(self, path: Path | None = None) -> Path:
        """At the given path, in $ZONDA, built in this tree, or on PATH."""
        given = path or (Path(os.environ["ZONDA"]) if "ZONDA" in os.environ else None)
        return super().find(given or (BUILT if BUILT.exists() else None))

    def files(self, config: ServerConfig) -> dict[str, str]:
        listen = ", ".join(f'"{address}:{config.endpoint.port}"' for address in config.addresses)
        lines = [
            "[server]",
            f"listen = [{listen}]",
            f"workers = {config.workers}",
            f"tcp-workers = {config.workers}",
            f"tcp-connections = {config.tcp_clients}",
            f"tcp-connections-per-client = {config.tcp_clients}",
            f"tcp-idle-timeout-ms = {config.tcp_idle_s * 1000}",
            f'state-dir = "{config.directory}"',
            *config.options,
        ]
        zones = "".join(self._zone(zone) for zone in config.zones)
        return {self.config_file: "".join(f"{line}\n" for line in lines) + zones}

    def _zone(self, zone: Zone) -> str:
        lines = [f'name = "{zone.name}"', 'allow-transfer = ["0.0.0.0/0"]']
        if zone.primary:
            there = zone.primary.endpoint
            lines.append(f'primaries = ["{there.address}:{there.port}"]')
        else:
            lines.append(f'file = "{zone.file}"')
        return "[[zone]]\n" + "".join(f"{line}\n" for line in lines)
