"""ISC's BIND 9."""

from pathlib import Path

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, SERVING, Adapter, Feature, TunedLine
from zonda_lab.servers.config import ServerConfig, Zone


class Bind(Adapter):
    """named.conf(5); threads, reload by SIGHUP."""

    name, program, package = "bind", "named", "bind9"
    version_flag, config_file = "-v", "named.conf"
    always, tls_since = SERVING | {Feature.UPDATE}, (9, 18)

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        return [program, "-g", "-n", str(config.workers), "-c", config.directory / self.config_file]

    def files(self, config: ServerConfig) -> dict[str, str]:
        parts = [self._options(config), "controls { };\n", "logging { category default { default_stderr; }; };\n"]
        if config.tsig:
            key = config.tsig
            parts.append(f'key "{key.name}" {{ algorithm {key.algorithm}; secret "{key.secret}"; }};\n')
        if own := config.certificate:
            parts.append(f'tls service {{ cert-file "{own.certificate}"; key-file "{own.key}"; }};\n')
        if ca := config.authority:
            parts.append(f'tls primary {{ ca-file "{ca.certificate}"; remote-hostname "{ca.name}"; }};\n')
        parts += [self._zone(config, zone) for zone in config.zones]
        return {self.config_file: "".join(parts)}

    def _options(self, config: ServerConfig) -> str:
        here, addresses = config.endpoint, " ".join(f"{address};" for address in config.addresses)
        trusted = f'{{ key "{config.tsig.name}"; }}' if config.tsig else "{ any; }"
        lines = [
            f'directory "{config.directory}"',
            "pid-file none",
            f"listen-on port {here.port} {{ {addresses} }}",
            "listen-on-v6 { none; }",
            "recursion no",
            "check-names primary ignore",
            "dnssec-validation no",
            f"allow-transfer {trusted}",
            *(["allow-notify { any; }"] if config.primaries else []),
            *([f"allow-update {trusted}"] if config.updates else []),
            f"tcp-clients {config.tcp_clients}",
            f"tcp-idle-timeout {config.tcp_idle_s * 10}",
            *self.tuned(config),
            "notify " + ("explicit" if config.notify else "no"),
        ]
        if config.notify:
            lines.append("also-notify { " + " ".join(f"{to.address} port {to.port};" for to in config.notify) + " }")
        if config.certificate:
            lines.append(f"listen-on port {here.tls_port} tls service {{ {addresses} }}")
        return "options {\n" + "".join(f"  {line};\n" for line in [*lines, *config.options]) + "};\n"

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

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        if not zone.primary:
            return f'zone "{zone.name}" {{ type primary; file "{zone.file}"; }};\n'
        there, port = zone.primary.endpoint, zone.primary.port
        key = f' key "{config.tsig.name}"' if config.tsig else ""
        using = " tls primary" if zone.primary.tls else ""
        return f'zone "{zone.name}" {{ type secondary; primaries port {port} {{ {there.address}{key}{using}; }}; }};\n'
