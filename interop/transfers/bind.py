"""BIND in a transfer test."""

from __future__ import annotations

from pathlib import Path

from servers import HOST, reserve_port
from transfers.server import Build, TransferServer
from transfers.server_config import Access, Key, Remote, ServerConfig, ZoneConfig

OPTIONS = """\
  directory "{folder}";
  listen-on port {port} {{ {host}; }};
  listen-on-v6 {{ none; }};
  pid-file none;
  session-keyfile none;
  recursion no;
  dnssec-validation no;
  empty-zones-enable no;
  max-records-per-type 0;
  check-names primary ignore;
  check-names secondary ignore;
  check-integrity no;
  masterfile-format text;
  notify explicit;
  notify-delay 0;
  min-refresh-time 1;
  min-retry-time 1;
  serial-query-rate 100;
  ixfr-from-differences yes;
  max-ixfr-ratio unlimited;
  max-journal-size unlimited;
"""
CONTROL_KEY = Key("control")


class BindTransfers(TransferServer):
    name = "bind"
    programs_needed = ("rndc",)

    def __init__(self, build: Build, folder: Path, config: ServerConfig) -> None:
        super().__init__(build, folder, config)
        self.control_port = reserve_port()

    def arguments(self) -> list[str]:
        config, tls = self.server_config, self.server_config.tls
        options = OPTIONS.format(host=HOST, port=config.port, folder=self.folder)
        lines = [key_text(key) for key in [CONTROL_KEY, *config.keys]]
        lines += self.tls_lines()
        if tls is not None and config.tls_port is not None:
            options += f"  listen-on port {config.tls_port} tls service {{ {HOST}; }};\n"
        options += "".join(self.catalog_text(zone) for zone in config.zones if zone.catalog == "consume")
        lines += [f"options {{\n{options}}};"]
        lines += [f'controls {{ inet {HOST} port {self.control_port} allow {{ {HOST}; }} keys {{ "{CONTROL_KEY.name}"; }}; }};']
        lines += [self.zone_text(zone) for zone in config.zones]
        self.config_path.write_text("\n".join(lines) + "\n")
        (self.folder / "rndc.key").write_text(key_text(CONTROL_KEY))
        return [self.build.program("named"), "-g", "-n", "1", "-c", str(self.config_path)]

    def tls_lines(self) -> list[str]:
        """The statements for the listener and for each way to connect."""
        config, tls = self.server_config, self.server_config.tls
        if tls is None:
            return []
        own = f'cert-file "{tls.certificate}"; key-file "{tls.key}";'
        mutual = any(isinstance(entry.tls, str) for zone in config.zones for entry in zone.transfer)
        authority = f'ca-file "{tls.authority}";'
        lines = [f"tls service {{ {own} {authority if mutual else ''} }};"]
        for remote in {r.tls for zone in config.zones for r in (*zone.primaries, *zone.notify) if r.tls is not None}:
            checks = f'{authority} remote-hostname "{remote.name}";' if remote.name else ""
            lines.append(f"tls {tls_name(remote.name, remote.client)} {{ {own if remote.client else ''} {checks} }};")
        return lines

    def zone_text(self, zone: ZoneConfig) -> str:
        file = zone.file if zone.file is not None else self.folder / f"{zone.name}zone"
        lines = [f'zone "{zone.name}" {{', f"  type {'secondary' if zone.primaries else 'primary'};", f'  file "{file}";']
        lines += [transfer_text(zone.transfer, self.server_config.tls_port)]
        if zone.primaries:
            lines.append(f"  primaries {{ {remotes(zone.primaries)} }};")
            lines.append(f"  allow-notify {{ {' '.join(match(Access(remote.key)) for remote in zone.primaries)} }};")
        if zone.notify:
            lines.append(f"  also-notify {{ {remotes(zone.notify)} }};")
        if zone.update:
            directive = "allow-update-forwarding" if zone.forward_updates else "allow-update"
            lines.append(f"  {directive} {{ {' '.join(map(match, zone.update))} }};")
        return "\n".join([*lines, "};"])

    def catalog_text(self, zone: ZoneConfig) -> str:
        """Members are transferred as this says. BIND has no templates for groups."""
        return (
            f'  catalog-zones {{ zone "{zone.name}" default-primaries {{ {remotes(zone.groups[""])} }}\n'
            f'    in-memory no zone-directory "{self.folder}" min-update-interval 1; }};\n'
            f"  {transfer_text(zone.transfer, None)}\n"
        )

    def reload_zone(self, zone: ZoneConfig) -> None:
        self.control("reload", zone.name)

    def reload_config(self) -> None:
        self.control("reconfig")

    def retransfer(self, zone: str) -> None:
        self.control("retransfer", zone)

    def control(self, *command: str) -> str:
        return self.run("rndc", "-s", HOST, "-p", str(self.control_port), "-k", str(self.folder / "rndc.key"), *command)


def transfer_text(entries: tuple[Access, ...], tls_port: int | None) -> str:
    """Who may transfer; BIND has one list for each zone, for a port with TLS or for all transports, which is less strict."""
    if all(entry.tls for entry in entries):
        return f"  allow-transfer port {tls_port} transport tls {{ {' '.join(match(entry) for entry in entries)} }};"
    return f"  allow-transfer {{ {' '.join(match(entry) for entry in entries)} }};"


def match(entry: Access) -> str:
    return f'key "{entry.key.name}";' if entry.key is not None else "127.0.0.0/8;"


def remotes(entries: tuple[Remote, ...]) -> str:
    texts = []
    for entry in entries:
        key = f' key "{entry.key.name}"' if entry.key is not None else ""
        tls = f" tls {tls_name(entry.tls.name, entry.tls.client)}" if entry.tls is not None else ""
        texts.append(f"{HOST} port {entry.port}{key}{tls};")
    return " ".join(texts)


def tls_name(name: str | None, mutual: bool) -> str:
    """The name of a tls statement: by server name and whether there is an own certificate."""
    return f"to-{(name or 'any').rstrip('.').replace('.', '-')}{'-mutual' if mutual else ''}"


def key_text(key: Key) -> str:
    return f'key "{key.name}" {{ algorithm {key.algorithm}; secret "{key.secret}"; }};'
