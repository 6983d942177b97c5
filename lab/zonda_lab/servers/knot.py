"""CZ.NIC's Knot DNS."""

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, SERVING, Adapter, Feature, TunedLine
from zonda_lab.servers.config import ServerConfig, Zone

RETRY = f"retry-max-interval: {RETRY_S}s"


class Knot(Adapter):
    """knot.conf(5); threads, reload by SIGHUP."""

    name, program, package = "knot", "knotd", "knot"
    version_flag, arguments, config_file = "-V", ("-c",), "knot.conf"
    always, tls_since = SERVING | {Feature.UPDATE}, (3, 4)

    def files(self, config: ServerConfig) -> dict[str, str]:
        parts = [self._server(config)]
        if config.tsig:
            key = config.tsig
            parts.append(f"key:\n - id: {key.name}\n   algorithm: {key.algorithm}\n   secret: {key.secret}\n")
        parts += [self._access(config), self._remotes(config), self._template(config), "zone:\n"]
        parts += [self._zone(config, zone) for zone in config.zones]
        return {self.config_file: "".join(parts)}

    def tuning(self, config: ServerConfig) -> list[TunedLine]:
        if not config.primaries:
            return []
        parallel = TunedLine(f"background-workers: {config.parallel_transfers}", "as many transfers at once as by all")
        return [parallel, TunedLine(RETRY, RETRY_WHY)]

    def _server(self, config: ServerConfig) -> str:
        here = config.endpoint
        lines = [
            f"rundir: {config.directory}",
            f"listen: [{', '.join(f'{address}@{here.port}' for address in config.addresses)}]",
            f"udp-workers: {config.workers}",
            f"tcp-workers: {config.workers}",
            f"tcp-max-clients: {config.tcp_clients}",
            f"tcp-idle-timeout: {config.tcp_idle_s}",
            *([f"background-workers: {config.parallel_transfers}"] if config.tuned and config.primaries else []),
        ]
        if config.certificate:
            lines += [
                f"listen-tls: [{', '.join(f'{address}@{here.tls_port}' for address in config.addresses)}]",
                f"cert-file: {config.certificate.certificate}",
                f"key-file: {config.certificate.key}",
            ]
        log = f"log:\n - target: stdout\n   any: warning\ndatabase:\n storage: {config.directory}\n"
        return "server:\n" + "".join(f" {line}\n" for line in [*lines, *config.options]) + log

    def _access(self, config: ServerConfig) -> str:
        key = f"   key: {config.tsig.name}\n" if config.tsig else ""
        actions = "[transfer, update]" if config.updates else "transfer"
        return (
            f"acl:\n - id: trusted\n   address: 0.0.0.0/0\n   action: {actions}\n{key}"
            " - id: change\n   address: 0.0.0.0/0\n   action: notify\n"
        )

    def _remotes(self, config: ServerConfig) -> str:
        remotes = [f" - id: secondary{i}\n   address: {to.plain}\n" for i, to in enumerate(config.notify)]
        for i, primary in enumerate(config.primaries):
            remotes.append(f" - id: primary{i}\n   address: {primary.endpoint.address}@{primary.port}\n")
            remotes += ["   tls: on\n"] if primary.tls else []
            remotes += [f"   key: {config.tsig.name}\n"] if config.tsig else []
        return "remote:\n" + "".join(remotes) if remotes else ""

    def _template(self, config: ServerConfig) -> str:
        load, journal = ("none", "none") if config.primaries else ("difference", "changes")
        source = f"   zonefile-load: {load}\n   journal-content: {journal}\n"
        secondaries = ", ".join(f"secondary{i}" for i in range(len(config.notify)))
        notify = f"   notify: [{secondaries}]\n" if secondaries else ""
        retry = f"   {RETRY}\n" if config.tuned and config.primaries else ""
        return (
            f"template:\n - id: default\n   storage: {config.directory}\n   semantic-checks: off\n"
            f"   zonefile-sync: -1\n   acl: [trusted, change]\n{source}{notify}{retry}"
        )

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        source = f"master: primary{config.primaries.index(zone.primary)}" if zone.primary else f"file: {zone.file}"
        return f' - domain: "{zone.name}"\n   {source}\n'
