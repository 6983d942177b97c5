"""EURid's YADIFA."""

from zonda_lab.servers.adapter import Adapter, TunedLine, file_of
from zonda_lab.servers.config import ServerConfig, Zone


class Yadifa(Adapter):
    """yadifad.conf(5); threads, reload by SIGHUP."""

    name, program, package = "yadifa", "yadifad", "yadifa"
    version_flag, arguments, config_file = "-V", ("-c",), "yadifad.conf"
    in_both = (
        TunedLine("statistics off", "other servers log no statistics"),
        TunedLine("queries-log-type 0", "other servers log no queries"),
    )

    def files(self, config: ServerConfig) -> dict[str, str]:
        parts = []
        if key := config.tsig:
            parts.append(f"<key>\n name {key.name}\n algorithm {key.algorithm}\n secret {key.secret}\n</key>\n")
            parts.append(f"<acl>\n transferers key {key.name}\n</acl>\n")
        parts.append(self._main(config))
        parts += [self._zone(config, zone) for zone in config.zones]
        return {self.config_file: "".join(parts)}

    def _main(self, config: ServerConfig) -> str:
        folder, here = config.directory, config.endpoint
        lines = [
            "daemonize off",
            f"keyspath {folder}",
            "datapath /",
            f"pidfile {folder}/yadifad.pid",
            f"logpath {folder}",
            f"xfrpath {folder}",
            "listen " + ", ".join(f"{address} port {here.port}" for address in config.addresses),
            f"server-port {here.port}",
            f"thread-count-by-address {config.workers}",
            f"max-tcp-queries {min(config.tcp_clients, 8192)}",
            f"allow-transfer {'transferers' if config.tsig else 'any'}",
            "allow-notify any",
            "uid root",
            "gid root",
            *(line.text for line in self.in_both),
        ]
        return "<main>\n" + "".join(f" {line}\n" for line in [*lines, *config.options]) + "</main>\n"

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        lines = [f"domain {zone.name}"]
        if zone.policy.primaries:
            there = zone.policy.primaries[0]
            key = f" key {config.tsig.name}" if config.tsig else ""
            lines += [
                "type slave",
                f"file {config.directory}/{file_of(zone.name)}",
                f"master {there.address} port {there.port}{key}",
            ]
        else:
            lines += ["type master", f"file {zone.file}"]
        if config.notify:
            lines.append("notify " + ", ".join(f"{to.address} port {to.port}" for to in config.notify))
        return "<zone>\n" + "".join(f" {line}\n" for line in lines) + "</zone>\n"
