"""Knot DNS in a transfer test."""

from __future__ import annotations

from itertools import count

from servers import HOST
from transfers.server import TransferServer
from transfers.server_config import Access, Remote, ZoneConfig

SERVER = """\
server:
  listen: {host}@{port}
{tls}  rundir: {folder}
  udp-workers: 1
  tcp-workers: 1
  tcp-io-timeout: 10000
  background-workers: 2
control:
  listen: {folder}/control
log:
  - target: stdout
    any: info
database:
  storage: {folder}/db
"""
TEMPLATE = """\
template:
  - id: default
    storage: {folder}
    semantic-checks: off
    zonefile-sync: -1
    zonefile-load: difference
    journal-content: changes
"""


class KnotTransfers(TransferServer):
    name = "knot"
    programs_needed = ("knotc",)

    def arguments(self) -> list[str]:
        config, tls = self.server_config, ""
        (self.folder / "db").mkdir(exist_ok=True)
        if config.tls is not None:
            tls = f"  cert-file: {config.tls.certificate}\n  key-file: {config.tls.key}\n  ca-file: {config.tls.authority}\n"
            if config.tls_port is not None:
                tls += f"  listen-tls: {HOST}@{config.tls_port}\n"
            if config.quic_port is not None:
                tls += f"  listen-quic: {HOST}@{config.quic_port}\n"
        self.numbers, self.remotes, self.acls = count(), [], []  # filled by the texts that refer to them
        zones = [self.zone_text(zone) for zone in config.zones]
        templates = [self.template_text(zone, group) for zone in config.zones for group in zone.groups]
        lines = [SERVER.format(host=HOST, port=config.port, folder=self.folder, tls=tls)]
        if config.keys:
            lines.append("key:")
            lines += [f"  - id: {key.name}\n    algorithm: {key.algorithm}\n    secret: {key.secret}" for key in config.keys]
        lines += ["remote:", *self.remotes] if self.remotes else []
        lines += ["acl:", *self.acls] if self.acls else []
        lines.append(TEMPLATE.format(folder=self.folder))
        self.config_path.write_text("\n".join([*lines, *templates, "zone:", *zones]) + "\n")
        return [self.build.program("knotd"), "-c", str(self.config_path)]

    def zone_text(self, zone: ZoneConfig) -> str:
        lines = [f"  - domain: {zone.name}"]
        if zone.file is not None:
            lines.append(f"    file: {zone.file}")
        lines += self.access_lines(zone.transfer, zone.primaries, zone.update)
        if zone.primaries:
            lines += self.primary_lines(zone.primaries)
        if zone.forward_updates:
            lines.append(f"    ddns-master: {self.remote(zone.primaries[0])}")
        if zone.notify:
            lines.append(f"    notify: [{', '.join(self.remote(remote) for remote in zone.notify)}]")
        if zone.catalog == "consume":
            lines += ["    catalog-role: interpret", f"    catalog-template: [{', '.join(group or 'members' for group in zone.groups)}]"]
        if zone.catalog == "produce":
            lines += ["    catalog-role: generate", "    zonefile-load: none", "    journal-content: all"]
        if zone.member_of is not None:
            lines += ["    catalog-role: member", f"    catalog-zone: {zone.member_of}"]
        return "\n".join(lines)

    def template_text(self, zone: ZoneConfig, group: str) -> str:
        """The template of the members of a group."""
        primaries = zone.groups[group]
        lines = [f"  - id: {group or 'members'}", f"    storage: {self.folder}", "    semantic-checks: off", "    zonefile-sync: -1"]
        lines += self.access_lines(zone.transfer, primaries, ())
        return "\n".join([*lines, *self.primary_lines(primaries)])

    def primary_lines(self, primaries: tuple[Remote, ...]) -> list[str]:
        """The primaries; the zone survives a restart in the journal alone."""
        ids = ", ".join(self.remote(remote) for remote in primaries)
        return [f"    master: [{ids}]", "    zonefile-load: none", "    journal-content: all"]

    def access_lines(self, transfer: tuple[Access, ...], primaries: tuple[Remote, ...], update: tuple[Access, ...]) -> list[str]:
        """Who may transfer, notify and update."""
        ids = [self.acl("transfer", entry) for entry in transfer]
        ids += [self.acl("notify", Access(key)) for key in {remote.key for remote in primaries}]
        ids += [self.acl("update", entry) for entry in update]
        return [f"    acl: [{', '.join(ids)}]"]

    def acl(self, action: str, entry: Access) -> str:
        name = f"{action}{next(self.numbers)}"
        lines = [f"  - id: {name}", "    address: 127.0.0.0/8", f"    action: {action}"]
        if entry.key is not None:
            lines.append(f"    key: {entry.key.name}")
        if entry.tls:
            lines.append(f"    protocol: {'tls' if self.server_config.quic_port is None else 'quic'}")
        if isinstance(entry.tls, str):
            lines.append(f"    cert-hostname: {entry.tls}")
        self.acls.append("\n".join(lines))
        return name

    def remote(self, remote: Remote) -> str:
        name = f"remote{next(self.numbers)}"
        lines = [f"  - id: {name}", f"    address: {HOST}@{remote.port}"]
        if remote.key is not None:
            lines.append(f"    key: {remote.key.name}")
        if remote.tls is not None:
            lines.append(f"    {'quic' if remote.tls.quic else 'tls'}: on")
            if remote.tls.name is not None:
                lines.append(f"    cert-hostname: {remote.tls.name}")
            if remote.tls.pin is not None:
                lines.append(f"    cert-key: {remote.tls.pin}")
        self.remotes.append("\n".join(lines))
        return name

    def reload_zone(self, zone: ZoneConfig) -> None:
        self.control("-b", "zone-reload", zone.name)

    def reload_config(self) -> None:
        self.control("reload")

    def retransfer(self, zone: str) -> None:
        self.control("zone-retransfer", zone)

    def control(self, *command: str) -> str:
        return self.run("knotc", "-s", str(self.folder / "control"), *command)
