"""Zonda in a transfer test."""

from __future__ import annotations

import json

from servers import HOST
from transfers.server import TransferServer
from transfers.server_config import Access, Remote, ZoneConfig


class ZondaTransfers(TransferServer):
    name = "zonda"

    def arguments(self) -> list[str]:
        config, tls = self.server_config, self.server_config.tls
        lines = ["[server]", f'listen = ["{HOST}:{config.port}"]', "workers = 1", "tcp-workers = 1", f'state-dir = "{self.folder}"']
        if tls is not None:
            if config.tls_port is not None:
                lines.append(f'listen-tls = ["{HOST}:{config.tls_port}"]')
            if config.quic_port is not None:
                lines.append(f'listen-quic = ["{HOST}:{config.quic_port}"]')
            lines += [f'tls-cert = "{tls.certificate}"', f'tls-key = "{tls.key}"', f'tls-ca = "{tls.authority}"']
        for key in config.keys:
            lines += ["", "[[key]]", f'name = "{key.name}"', f'algorithm = "{key.algorithm}"', f'secret = "{key.secret}"']
        for zone in config.zones:
            lines += ["", *self.templates(zone), "[[zone]]", *self.zone_lines(zone)]
        self.config_path.write_text("\n".join(lines) + "\n")
        return [self.build.program("zonda"), "serve", "--config", str(self.config_path)]

    def zone_lines(self, zone: ZoneConfig) -> list[str]:
        lines = [f'name = "{zone.name}"']
        if zone.file is not None:
            lines.append(f'file = "{zone.file}"')
        if zone.primaries:
            lines.append(f"primaries = {self.remotes(zone.primaries)}")
        if zone.notify:
            lines.append(f"notify = {self.remotes(zone.notify)}")
        if zone.notify_ns:
            lines.append("notify-ns = true")
        lines.append(f"allow-transfer = {accesses(zone.transfer)}")
        if zone.update:
            lines.append(f"allow-update = {update_rights(zone.update)}")
        if zone.forward_updates:
            lines.append("forward-updates = true")
        if zone.member_of is not None:
            lines.append(f'catalog-member = "{zone.member_of}"')
        if zone.catalog:
            lines.append(f'catalog = "{zone.catalog}"')
        if names := [group for group in zone.groups if group]:
            lines.append("catalog-templates = { " + ", ".join(f'{name} = "{name}"' for name in names) + " }")
        return lines

    def templates(self, zone: ZoneConfig) -> list[str]:
        """The templates of the members of a consumed catalog; members without a group take the default."""
        lines: list[str] = []
        for group, primaries in zone.groups.items():
            lines += [f"[template.{group or 'default'}]", f"primaries = {self.remotes(primaries)}", f"allow-transfer = {accesses(zone.transfer)}", ""]
        return lines

    def remotes(self, remotes: tuple[Remote, ...]) -> str:
        return "[" + ", ".join(map(self.remote, remotes)) + "]"

    def remote(self, remote: Remote) -> str:
        fields = [f'address = "{HOST}:{remote.port}"']
        if remote.key is not None:
            fields.append(f'key = "{remote.key.name}"')
        if remote.tls is not None:
            fields.append(f"tls = {json.dumps(remote.tls.name or True)}")
            fields += [f'tls-pin = "sha256/{remote.tls.pin}"'] if remote.tls.pin else []
            fields += ["quic = true"] if remote.tls.quic else []
        if remote.tls is not None and remote.tls.client:
            tls = self.server_config.tls
            assert tls is not None, "mutual TLS needs an own certificate"
            fields += [f'tls-client-cert = "{tls.certificate}"', f'tls-client-key = "{tls.key}"']
        return "{ " + ", ".join(fields) + " }"

    def reload_zone(self, zone: ZoneConfig) -> None:
        self.reload_config()

    def reload_config(self) -> None:
        self.control("reload")

    def retransfer(self, zone: str) -> None:
        self.control("zone", "retransfer", zone)

    def control(self, *command: str) -> str:
        return self.run("zonda", *command, "--config", str(self.config_path))


def accesses(entries: tuple[Access, ...]) -> str:
    return "[" + ", ".join(map(access, entries)) + "]"


def update_rights(entries: tuple[Access, ...]) -> str:
    """Entries for all records; those that define the zone must be named."""
    named = [access(entry, 'types = ["SOA", "NS"]') for entry in entries]
    return "[" + ", ".join([*map(access, entries), *named]) + "]"


def access(entry: Access, more: str = "") -> str:
    if entry == Access() and not more:
        return '"127.0.0.0/8"'
    fields = [f'key = "{entry.key.name}"'] if entry.key is not None else ['address = "127.0.0.0/8"']
    if entry.tls:
        fields.append(f"tls = {json.dumps(entry.tls)}")
    if more:
        fields.append(more)
    return "{ " + ", ".join(fields) + " }"
