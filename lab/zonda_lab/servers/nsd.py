"""NLnet Labs' NSD."""

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, Adapter, TunedLine, file_of
from zonda_lab.servers.config import ServerConfig, Zone

OF_ZONES = [f"min-retry-time: {RETRY_S}", f"max-retry-time: {RETRY_S}"]


class Nsd(Adapter):
    """nsd.conf(5); processes instead of threads, reload by SIGHUP."""

    name, program, package = "nsd", "nsd", "nsd"
    version_flag, arguments, config_file = "-v", ("-d", "-c"), "nsd.conf"
    tls_since = (4, 4)  # DNS over TLS since 4.2, XoT in since 4.3.7, XoT out since 4.4

    def files(self, config: ServerConfig) -> dict[str, str]:
        parts = [self._server(config), "remote-control:\n control-enable: no\n"]
        if config.tsig:
            key = config.tsig
            parts.append(f'key:\n name: "{key.name}"\n algorithm: {key.algorithm}\n secret: "{key.secret}"\n')
        if config.authority:
            parts.append(f'tls-auth:\n name: "primary"\n auth-domain-name: "{config.authority.name}"\n')
        parts += [self._zone(config, zone) for zone in config.zones]
        return {self.config_file: "".join(parts)}

    def tuning(self, config: ServerConfig) -> list[TunedLine]:
        return [
            TunedLine("tcp-query-count: 0", "other servers do not limit the queries of a connection"),
            TunedLine("reuseport: yes", "one UDP socket per process, as other servers have one per thread"),
            TunedLine("rrl-ratelimit: 0", "other servers limit no rates by default"),
            TunedLine("refuse-any: no", "other servers answer ANY"),
            TunedLine("xfrd-reload-timeout: 0", "other servers serve a transferred zone at once, not after 1 s"),
            TunedLine(f"xfrd-tcp-max: {config.parallel_transfers}", "as many transfers at once as by all servers"),
            *(TunedLine(line, RETRY_WHY) for line in OF_ZONES),
        ]

    def _server(self, config: ServerConfig) -> str:
        folder, here = config.directory, config.endpoint
        lines = [
            f"server-count: {config.workers}",
            *(f"ip-address: {address}@{here.port}" for address in config.addresses),
            f"port: {here.port}",
            'username: ""',
            "zonesdir: /",
            'database: ""',
            f"pidfile: {folder}/nsd.pid",
            f"xfrdfile: {folder}/xfrd.state",
            f"zonelistfile: {folder}/zone.list",
            f"xfrdir: {folder}",
            f"tcp-count: {config.tcp_clients}",
            f"tcp-timeout: {config.tcp_idle_s}",
            *(line for line in self.tuned(config) if line not in OF_ZONES),
        ]
        if config.certificate:
            lines += [
                *(f"ip-address: {address}@{here.tls_port}" for address in config.addresses),
                f"tls-port: {here.tls_port}",
                f'tls-service-key: "{config.certificate.key}"',
                f'tls-service-pem: "{config.certificate.certificate}"',
            ]
        if config.authority:
            lines.append(f'tls-cert-bundle: "{config.authority.certificate}"')
        return "server:\n" + "".join(f" {line}\n" for line in [*lines, *config.options])

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        key = config.tsig.name if config.tsig else "NOKEY"
        lines = [f"name: {zone.name}", f"provide-xfr: 0.0.0.0/0 {key}"]
        if zone.primary:
            source, tls = f"{zone.primary.endpoint.address}@{zone.primary.port}", " primary" if zone.primary.tls else ""
            lines += [
                f"zonefile: {config.directory}/{file_of(zone.name)}",
                f"request-xfr: AXFR {source} {key}{tls}",
                "allow-notify: 0.0.0.0/0 NOKEY",
            ]
        else:
            lines.append(f"zonefile: {zone.file}")
        lines += [f"notify: {other.plain} NOKEY" for other in config.notify]
        lines += OF_ZONES if config.tuned and zone.primary else []
        return "zone:\n" + "".join(f" {line}\n" for line in lines)
