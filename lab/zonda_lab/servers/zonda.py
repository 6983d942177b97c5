"""Zonda."""

import json
import os
from pathlib import Path

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, SERVING, Adapter, Feature, TunedLine
from zonda_lab.servers.config import Access, Remote, ServerConfig, Tsig, Zone, ZonePolicy

BUILT = Path(__file__).resolve().parents[3] / "target/release/zonda"
DEFAULT = "default"  # the template of members of a catalog that are in no group


class Zonda(Adapter):
    """zonda.toml(5); threads, reload by SIGHUP."""

    name, program = "zonda", "zonda"
    arguments, config_file = ("serve", "--config"), "zonda.toml"
    always, tls_since = SERVING | {Feature.UPDATE, Feature.QUIC}, (0, 1)

    def find(self, path: Path | None = None) -> Path:
        """At the given path, in $ZONDA, built in this tree, or on PATH."""
        given = path or (Path(os.environ["ZONDA"]) if "ZONDA" in os.environ else None)
        return super().find(given or (BUILT if BUILT.exists() else None))

    def files(self, config: ServerConfig) -> dict[str, str]:
        parts = [self._server(config), *map(_key, config.keys)]
        for policy in config.policies:
            parts += [_template(config, policy, group) for group in policy.groups]
        return {self.config_file: "".join([*parts, *(self._zone(config, zone) for zone in config.zones)])}

    def tuning(self, config: ServerConfig) -> list[TunedLine]:
        keys = ("min-retry-s", "max-retry-s") if config.primaries else ()
        return [TunedLine(f"{key} = {RETRY_S}", RETRY_WHY) for key in keys]

    def _server(self, config: ServerConfig) -> str:
        here, own = config.endpoint, config.certificate
        lines = [
            "[server]",
            f"listen = {listen(config, here.port)}",
            f"workers = {config.workers}",
            f"tcp-workers = {config.workers}",
            f"tcp-connections = {config.tcp_clients}",
            f"tcp-connections-per-client = {config.tcp_clients}",
            f"tcp-idle-timeout-ms = {config.tcp_idle_s * 1000}",
            f'state-dir = "{config.directory}"',
        ]
        if own:
            ports = {"tls": here.tls_port, "quic": here.quic_port}
            lines += [f"listen-{name} = {listen(config, port)}" for name, port in ports.items() if port]
            of_quic = [
                f"quic-connections = {config.tcp_clients}",
                f"quic-connections-per-client = {config.tcp_clients}",
                f"quic-idle-timeout-ms = {config.tcp_idle_s * 1000}",
            ]
            lines += of_quic if here.quic_port else []
            lines += [f'tls-cert = "{own.certificate}"', f'tls-key = "{own.key}"']
        if config.authority:
            lines.append(f'tls-ca = "{config.authority}"')
        return text([*lines, *config.options])

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        policy = zone.policy
        lines = ["[[zone]]", f'name = "{zone.name}"', f"allow-transfer = {_clients(policy.transfer)}"]
        lines += [f'file = "{zone.file}"'] if zone.file else []
        if policy.primaries:
            lines += [f"primaries = {_servers(config, policy.primaries)}", *self.tuned(config)]
        lines += [f"allow-notify = {_clients(policy.notified_by)}"] if policy.notified_by else []
        lines += [f"allow-update = {_updaters(policy.update)}"] if policy.update else []
        lines += [f"notify = {_servers(config, policy.notify)}"] if policy.notify else []
        lines += [f"{key} = true" for key in ("forward-updates", "notify-ns") if getattr(policy, key.replace("-", "_"))]
        lines += [f'catalog = "{policy.catalog}"'] if policy.catalog else []
        lines += [f'catalog-member = "{policy.member_of}"'] if policy.member_of else []
        if names := [group for group in policy.groups if group]:
            lines.append("catalog-templates = { " + ", ".join(f'{name} = "{name}"' for name in names) + " }")
        return text(lines)


def listen(config: ServerConfig, port: int) -> str:
    """All addresses with this port."""
    return "[" + ", ".join(f'"{address}:{port}"' for address in config.addresses) + "]"


def text(lines: list[str]) -> str:
    """One line each."""
    return "".join(f"{line}\n" for line in lines)


def _key(key: Tsig) -> str:
    return text(["[[key]]", f'name = "{key.name}"', f'algorithm = "{key.algorithm}"', f'secret = "{key.secret}"'])


def _template(config: ServerConfig, policy: ZonePolicy, group: str) -> str:
    """The template of the members of a consumed catalog that are in a group."""
    primaries = f"primaries = {_servers(config, policy.groups[group])}"
    return text([f"[template.{group or DEFAULT}]", primaries, f"allow-transfer = {_clients(policy.transfer)}"])


def _servers(config: ServerConfig, entries: tuple[Remote, ...]) -> str:
    return "[" + ", ".join(_remote(config, entry) for entry in entries) + "]"


def _remote(config: ServerConfig, remote: Remote) -> str:
    fields = [f'address = "{remote.address}:{remote.port}"']
    fields += [f'key = "{remote.key.name}"'] if remote.key else []
    if tls := remote.tls:
        fields.append(f"tls = {json.dumps(tls.name or True)}")
        fields += [f'tls-pin = "sha256/{tls.pin}"'] if tls.pin else []
        fields += ["quic = true"] if tls.quic else []
        if tls.client and (own := config.certificate):
            fields += [f'tls-client-cert = "{own.certificate}"', f'tls-client-key = "{own.key}"']
    return f"{{ {', '.join(fields)} }}"


def _clients(entries: tuple[Access, ...]) -> str:
    return "[" + ", ".join(map(_access, entries)) + "]"


def _updaters(entries: tuple[Access, ...]) -> str:
    """The clients that may update all records; those that define the zone must be named."""
    named = [_access(entry, 'types = ["SOA", "NS"]') for entry in entries]
    return "[" + ", ".join([*map(_access, entries), *named]) + "]"


def _access(entry: Access, more: str = "") -> str:
    if entry == Access() and not more:
        return '"0.0.0.0/0"'
    fields = [f'key = "{entry.key.name}"' if entry.key else 'address = "0.0.0.0/0"']
    fields += [f"tls = {json.dumps(entry.tls)}"] if entry.tls else []
    return "{ " + ", ".join([*fields, more] if more else fields) + " }"
