"""PowerDNS Authoritative with its bind backend."""

from pathlib import Path

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, Adapter, Feature, TunedLine
from zonda_lab.servers.config import ServerConfig, Zone

# pdns_control gives up after some seconds, although the server finishes loading a large zone.
IGNORE_TIMEOUT = 'output=$("$@" 2>&1) && exit; case $output in *Timeout*) ;; *) echo "$output" >&2; exit 1 ;; esac'


class Pdns(Adapter):
    """pdns_server(1): the bind backend with the default packet and query caches."""

    name, program, package = "pdns", "pdns_server", "pdns-server pdns-backend-bind"
    # TSIG keys need a database in addition to the bind backend: not supported here.
    always = frozenset({Feature.TCP, Feature.ZONES, Feature.SECONDARY, Feature.TRANSFER_OUT, Feature.NOTIFY})

    def command(self, program: Path, config: ServerConfig) -> list[str | Path]:
        return [program, f"--config-dir={config.directory}", "--daemon=no", "--guardian=no", "--disable-syslog"]

    def reload_command(self, config: ServerConfig) -> list[str | Path]:
        """Reloads each zone through the control socket."""
        names = [zone.name.rstrip(".") or "." for zone in config.zones]
        asked = ["pdns_control", f"--config-dir={config.directory}", "bind-reload-now", *names]
        return ["sh", "-c", IGNORE_TIMEOUT, "sh", *asked]

    def tuning(self, config: ServerConfig) -> list[TunedLine]:
        socket = TunedLine("reuseport=yes", "one UDP socket per thread, as other servers have")
        if not config.primaries:
            return [socket]
        threads = f"retrieval-threads={config.parallel_transfers}"
        return [
            socket,
            TunedLine(f"xfr-cycle-interval={RETRY_S}", RETRY_WHY),
            TunedLine(threads, "as many transfers at once as by all servers"),
        ]

    def files(self, config: ServerConfig) -> dict[str, str]:
        here = config.endpoint
        settings = {
            "launch": "bind",
            "bind-config": str(config.directory / "named.conf"),
            "local-address": ",".join(config.addresses),
            "local-port": str(here.port),
            "receiver-threads": str(config.workers),
            "socket-dir": str(config.directory),
            "allow-axfr-ips": "0.0.0.0/0",
            "max-tcp-connections": str(config.tcp_clients),
            "tcp-idle-timeout": str(config.tcp_idle_s),
            "loglevel": "4",
            "secondary": "yes" if config.primaries else "no",
            "primary": "yes" if config.notify else "no",
        }
        if config.notify:
            settings["also-notify"] = ",".join(f"{to.address}:{to.port}" for to in config.notify)
        own = [f"{key}={value}" for key, value in settings.items()]
        return {
            "pdns.conf": "".join(f"{line}\n" for line in [*own, *self.tuned(config), *config.options]),
            "named.conf": "".join(self._zone(config, zone) for zone in config.zones),
        }

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        if not zone.policy.primaries:
            return f'zone "{zone.name}" {{ type master; file "{zone.file}"; }};\n'
        there = zone.policy.primaries[0]
        file = config.directory / zone.name.rstrip(".")
        return f'zone "{zone.name}" {{ type slave; file "{file}"; masters {{ {there.address}:{there.port}; }}; }};\n'
