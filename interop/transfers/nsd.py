"""NSD in a transfer test."""

from __future__ import annotations

from servers import HOST
from transfers.server import TransferServer
from transfers.server_config import Access, Remote, ZoneConfig

SERVER = """\
server:
  ip-address: {host}@{port}
  server-count: 1
  username: ""
  zonesdir: {folder}
  pidfile: {folder}/pid
  xfrdfile: {folder}/xfrd.state
  zonelistfile: {folder}/zones.list
  xfrdir: {folder}
  rrl-ratelimit: 0
  refuse-any: no
remote-control:
  control-enable: yes
  control-interface: {folder}/control
"""


class NsdTransfers(TransferServer):
    name = "nsd"
    programs_needed = ("nsd-control",)

    def arguments(self) -> list[str]:
        config = self.server_config
        lines = [SERVER.format(host=HOST, port=config.port, folder=self.folder)]
        if self.build.release < (4, 8):
            # Else it keeps all zones in one file of the system.
            lines.append('server:\n  database: ""')
        if config.tls is not None:
            lines.append(self.tls_lines())
        lines += [f"key:\n  name: {key.name}\n  algorithm: {key.algorithm}\n  secret: {key.secret}" for key in config.keys]
        lines += [text for zone in config.zones for text in self.zone_texts(zone)]
        self.config_path.write_text("\n".join(lines) + "\n")
        return [self.build.program("nsd"), "-d", "-c", str(self.config_path)]

    def tls_lines(self) -> str:
        """The listener for TLS, and the ways to authenticate primaries and clients."""
        config, tls = self.server_config, self.server_config.tls
        assert tls is not None, "the caller checked it"
        lines = ["server:"]
        if config.tls_port is not None:
            mutual = any(isinstance(access.tls, str) for zone in config.zones for access in zone.transfer)
            lines += [f"  ip-address: {HOST}@{config.tls_port}", f"  tls-{'auth-' if mutual else ''}port: {config.tls_port}"]
        lines += [f"  tls-service-key: {tls.key}", f"  tls-service-pem: {tls.certificate}", f"  tls-cert-bundle: {tls.authority}"]
        for name, mutual in {(r.tls.name, r.tls.client) for zone in config.zones for r in zone.primaries if r.tls is not None}:
            lines += ["tls-auth:", f"  name: {tls_name(name, mutual)}", f"  auth-domain-name: {name}"]
            lines += [f"  client-cert: {tls.certificate}", f"  client-key: {tls.key}"] if mutual else []
        names = {access.tls for zone in config.zones for access in zone.transfer if isinstance(access.tls, str)}
        lines += [line for name in names for line in ("tls-auth:", f"  name: {tls_name(name, False)}", f"  auth-domain-name: {name}")]
        return "\n".join(lines)

    def zone_texts(self, zone: ZoneConfig) -> list[str]:
        if zone.catalog == "consume":
            return [*self.patterns(zone), self.zone_text("zone", zone, ["  catalog: consumer", '  catalog-member-pattern: "members"'])]
        if zone.catalog == "produce":
            return [self.zone_text("zone", zone, ["  catalog: producer"])]
        if zone.member_of is not None:
            # Only zones that are added while NSD runs become members.
            return [self.zone_text("pattern", zone, [f'  catalog-producer-zone: "{zone.member_of}"'])]
        return [self.zone_text("zone", zone, [])]

    def zone_text(self, clause: str, zone: ZoneConfig, more: list[str]) -> str:
        name = pattern_name(zone.name) if clause == "pattern" else zone.name
        file = zone.file if zone.file is not None else self.folder / f"{zone.name}zone"
        lines = [f"{clause}:", f'  name: "{name}"', f"  zonefile: {file}", *more, *provided(zone.transfer)]
        lines += [f"  notify: {HOST}@{remote.port} {key_name(remote)}" for remote in zone.notify]
        lines += requested(zone.primaries, zone.serve_udp_ixfr)
        if zone.primaries:
            lines.append(f"  multi-{'primary' if self.build.release >= (4, 8) else 'master'}-check: yes")
        return "\n".join([*lines, "  store-ixfr: yes", "  create-ixfr: yes"])

    def patterns(self, zone: ZoneConfig) -> list[str]:
        """The patterns of the members of a consumed catalog."""
        texts = []
        for group, primaries in zone.groups.items():
            head = ["pattern:", f'  name: "{group or "members"}"', f"  zonefile: {self.folder}/%s.zone"]
            texts.append("\n".join([*head, *provided(zone.transfer), *requested(primaries, False)]))
        return texts

    def reload_zone(self, zone: ZoneConfig) -> None:
        self.control("reload", zone.name)

    def reload_config(self) -> None:
        self.control("reconfig")

    def retransfer(self, zone: str) -> None:
        self.control("force_transfer", zone)

    def flush(self) -> None:
        self.control("write")

    def control(self, *command: str) -> str:
        return self.run("nsd-control", "-c", str(self.config_path), *command)


def provided(entries: tuple[Access, ...]) -> list[str]:
    """The clients that may transfer."""
    lines = []
    for entry in entries:
        name = f" {tls_name(entry.tls, False)}" if isinstance(entry.tls, str) else ""
        lines.append(f"  provide-xfr: 127.0.0.0/8 {entry.key.name if entry.key else 'NOKEY'}{name}")
    return lines


def requested(remotes: tuple[Remote, ...], over_udp: bool) -> list[str]:
    """The primaries, and that they may send NOTIFY."""
    lines = []
    for remote in remotes:
        authentication = f" {tls_name(remote.tls.name, remote.tls.client)}" if remote.tls is not None else ""
        lines.append(f"  request-xfr: {'UDP ' if over_udp else ''}{HOST}@{remote.port} {key_name(remote)}{authentication}")
        lines.append(f"  allow-notify: {HOST} {key_name(remote)}")
    return lines


def key_name(remote: Remote) -> str:
    return remote.key.name if remote.key is not None else "NOKEY"


def tls_name(name: str | None, mutual: bool) -> str:
    return f"{name}{'-mutual' if mutual else ''}"


def pattern_name(zone: str) -> str:
    return f"pattern-{zone}"
