"""ISC's BIND 9."""

from pathlib import Path

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, SERVING, Adapter, Feature, TunedLine, common_lines, file_of
from zonda_lab.servers.config import Access, Remote, ServerConfig, TlsRemote, Tsig, Zone, ZonePolicy
from zonda_lab.servers.credentials import tsig_key

CONTROL_KEY, CONTROL_FILE = tsig_key("control"), "rndc.key"


class Bind(Adapter):
    """named.conf(5); threads, reload by SIGHUP."""

    name, program, package = "bind", "named", "bind9"
    version_flag, config_file = "-v", "named.conf"
    always, tls_since = SERVING | {Feature.UPDATE}, (9, 18)
    in_both = (
        TunedLine("check-names primary ignore", "other servers do not check the characters of owner names"),
        TunedLine("dnssec-validation no", "nothing is resolved, so no root key is needed"),
    )

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        return [program, "-g", "-n", str(config.workers), "-c", config.directory / self.config_file]

    def files(self, config: ServerConfig) -> dict[str, str]:
        common, own = common_lines({policy: self._rights(config, policy) for policy in config.policies})
        control = [CONTROL_KEY] if config.control_port else []
        logging = "logging { category default { default_stderr; }; };"
        parts = [self._options(config, common), _controls(config), logging]
        parts += [_key_text(key) for key in [*control, *config.keys]]
        parts += [*_tls(config), *(self._zone(config, zone, own[zone.policy]) for zone in config.zones)]
        files = {self.config_file: "".join(f"{part}\n" for part in parts)}
        return files | ({CONTROL_FILE: _key_text(CONTROL_KEY)} if control else {})

    def _options(self, config: ServerConfig, common: list[str]) -> str:
        here, addresses = config.endpoint, " ".join(f"{address};" for address in config.addresses)
        lines = [
            f'directory "{config.directory}"',
            "pid-file none",
            f"listen-on port {here.port} {{ {addresses} }}",
            "listen-on-v6 { none; }",
            "recursion no",
            *(line.text for line in self.in_both),
            *common,
            f"tcp-clients {config.tcp_clients}",
            f"tcp-idle-timeout {config.tcp_idle_s * 10}",
            *self.tuned(config),
        ]
        if config.certificate and here.tls_port:
            lines.append(f"listen-on port {here.tls_port} tls service {{ {addresses} }}")
        lines += [_catalog(config, zone) for zone in config.zones if zone.policy.catalog == "consume"]
        return "options {\n" + "".join(f"  {line};\n" for line in [*lines, *config.options]) + "};"

    def tuning(self, config: ServerConfig) -> list[TunedLine]:
        parallel = "as many transfers at once as by all servers"
        return [
            TunedLine("rrset-order { order none; }", "other servers do not rotate RRsets"),
            TunedLine(f"transfers-in {config.parallel_transfers}", parallel),
            TunedLine(f"transfers-per-ns {config.parallel_transfers}", parallel),
            TunedLine("transfers-out 1000", "other servers have no limit"),
            TunedLine("serial-query-rate 10000", "other servers do not limit SOA queries"),
            TunedLine("startup-notify-rate 10000", "other servers do not limit NOTIFY"),
            TunedLine("notify-rate 10000", "other servers do not limit NOTIFY"),
            TunedLine("notify-delay 0", "other servers send NOTIFY at once"),
            TunedLine(f"min-retry-time {RETRY_S}", RETRY_WHY),
            TunedLine(f"max-retry-time {RETRY_S}", RETRY_WHY),
        ]

    def _rights(self, config: ServerConfig, policy: ZonePolicy) -> list[str]:
        """Who may do what: statements for a zone or for all; the transports of transfers are not distinguished."""
        is_secret = all(each.tls for each in policy.transfer)
        over = f" port {config.endpoint.tls_port} transport tls" if is_secret else ""
        lines = [f"allow-transfer{over} {_clients(policy.transfer)}"]
        if policy.primaries:
            lines.append(f"allow-notify {_clients(policy.notifiers)}")
        if policy.update:
            lines.append(f"allow-update{'-forwarding' if policy.forward_updates else ''} {_clients(policy.update)}")
        if not policy.notify:
            return [*lines, "notify no"]
        return [*lines, "notify explicit", f"also-notify {_servers(policy.notify)}"]

    def _zone(self, config: ServerConfig, zone: Zone, own: list[str]) -> str:
        stored = config.directory / file_of(zone.name) if config.keeps_zones else None
        primaries = zone.policy.primaries
        lines = [f"type {'secondary' if primaries else 'primary'}"]
        lines += [f'file "{file}"' for file in [zone.file or stored] if file]
        lines += [f"primaries {_servers(primaries)}"] if primaries else []
        return f'zone "{zone.name}" {{ {"".join(f"{line}; " for line in [*lines, *own])}}};'


def _controls(config: ServerConfig) -> str:
    if not config.control_port:
        return "controls { };"
    here, port = config.endpoint.address, config.control_port
    return f'controls {{ inet {here} port {port} allow {{ {here}; }} keys {{ "{CONTROL_KEY.name}"; }}; }};'


def _key_text(key: Tsig) -> str:
    return f'key "{key.name}" {{ algorithm {key.algorithm}; secret "{key.secret}"; }};'


def _tls(config: ServerConfig) -> list[str]:
    """The statements for the listener and for each way to connect."""
    lines, own, authority = [], "", f'ca-file "{config.authority}"; '
    if config.certificate:
        own = f'cert-file "{config.certificate.certificate}"; key-file "{config.certificate.key}"; '
        lines.append(f"tls service {{ {own}{authority if config.client_names else ''}}};")
    for remote in config.tls_remotes:
        verified = f'{authority}remote-hostname "{remote.name}"; ' if remote.name else ""
        lines.append(f"tls {_tls_name(remote)} {{ {own if remote.client else ''}{verified}}};")
    return lines


def _tls_name(remote: TlsRemote) -> str:
    """By the name of the server, and whether the own certificate is shown."""
    return f"to-{(remote.name or 'any').rstrip('.').replace('.', '-')}{'-mutual' if remote.client else ''}"


def _clients(entries: tuple[Access, ...]) -> str:
    return "{ " + "".join(f'key "{entry.key.name}"; ' if entry.key else "any; " for entry in entries) + "}"


def _servers(entries: tuple[Remote, ...]) -> str:
    texts = []
    for entry in entries:
        key = f' key "{entry.key.name}"' if entry.key else ""
        tls = f" tls {_tls_name(entry.tls)}" if entry.tls else ""
        texts.append(f"{entry.address} port {entry.port}{key}{tls}; ")
    return "{ " + "".join(texts) + "}"


def _catalog(config: ServerConfig, zone: Zone) -> str:
    """Members are transferred as this says. BIND has no templates for groups."""
    primaries = f'zone "{zone.name}" default-primaries {_servers(zone.policy.groups[""])}'
    return f'catalog-zones {{ {primaries} in-memory no zone-directory "{config.directory}" min-update-interval 1; }}'
