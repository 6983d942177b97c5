"""EURid's YADIFA."""

from __future__ import annotations

from pathlib import Path

from zonda_lab.model import Setup, Zone
from zonda_lab.servers.adapter import SERVING, Adapter, Feature, file_of


class Yadifa(Adapter):
    """yadifad.conf(5); threads, reload by SIGHUP."""

    name, program, package = "yadifa", "yadifad", "yadifa"

    def features(self, version: str) -> frozenset[Feature]:  # noqa: ARG002
        """No TLS up to 2.6."""
        return SERVING

    def version_command(self, program: Path) -> list[str | Path]:
        """`yadifad -V`."""
        return [program, "-V"]

    def command(self, program: Path, setup: Setup) -> list[str | Path]:
        """In the foreground, with our file."""
        return [program, "-c", setup.directory / "yadifad.conf"]

    def files(self, setup: Setup) -> dict[str, str]:
        """One file of `<section>`s."""
        parts = []
        if setup.tsig:
            parts.append(
                f"<key>\n name {setup.tsig.name}\n algorithm {setup.tsig.algorithm}\n"
                f" secret {setup.tsig.secret}\n</key>\n"
            )
            parts.append(f"<acl>\n transferers key {setup.tsig.name}\n</acl>\n")
        parts.append(self._main(setup))
        parts += [self._zone(setup, zone) for zone in setup.zones]
        return {"yadifad.conf": "".join(parts)}

    def _main(self, setup: Setup) -> str:
        folder, here = setup.directory, setup.endpoint
        lines = [
            "daemonize off",
            f"keyspath {folder}",
            "datapath /",
            f"pidfile {folder}/yadifad.pid",
            f"logpath {folder}",
            f"xfrpath {folder}",
            "listen " + ", ".join(f"{address} port {here.port}" for address in setup.addresses),
            f"server-port {here.port}",
            f"thread-count-by-address {setup.workers}",
            f"max-tcp-queries {min(setup.tcp_clients, 8192)}",
            f"allow-transfer {'transferers' if setup.tsig else 'any'}",
            "allow-notify any",
            "uid root",
            "gid root",
            "statistics off",
            "queries-log-type 0",
        ]
        return "<main>\n" + "".join(f" {line}\n" for line in [*lines, *setup.options]) + "</main>\n"

    def _zone(self, setup: Setup, zone: Zone) -> str:
        lines = [f"domain {zone.name}"]
        if zone.primary:
            there = zone.primary.endpoint
            key = f" key {setup.tsig.name}" if setup.tsig else ""
            lines += [
                "type slave",
                f"file {setup.directory}/{file_of(zone.name)}",
                f"master {there.address} port {there.port}{key}",
            ]
        else:
            lines += ["type master", f"file {zone.file}"]
        if setup.notify:
            lines.append("notify " + ", ".join(f"{to.address} port {to.port}" for to in setup.notify))
        return "<zone>\n" + "".join(f" {line}\n" for line in lines) + "</zone>\n"
