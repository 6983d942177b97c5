"""NLnet Labs' NSD."""

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, Adapter, TunedLine, file_of
from zonda_lab.servers.config import Access, Remote, ServerConfig, TlsRemote, Zone, ZonePolicy

OF_ZONES = [f"min-retry-time: {RETRY_S}", f"max-retry-time: {RETRY_S}"]
HISTORY = ["store-ixfr: yes", "create-ixfr: yes"]
MEMBERS = "members"  # the pattern of members of a catalog that are in no group
CATALOG = {"consume": ["catalog: consumer", f'catalog-member-pattern: "{MEMBERS}"'], "produce": ["catalog: producer"]}


class Nsd(Adapter):
    """nsd.conf(5); processes instead of threads, reload by SIGHUP."""

    name, program, package = "nsd", "nsd", "nsd"
    version_flag, arguments, config_file = "-v", ("-d", "-c"), "nsd.conf"
    tls_since = (4, 4)  # DNS over TLS since 4.2, XoT in since 4.3.7, XoT out since 4.4

    def files(self, config: ServerConfig) -> dict[str, str]:
        control = [f"control-interface: {config.directory}/control"] if config.control_port else []
        parts = [self._server(config)]
        parts.append(_clause("remote-control", [f"control-enable: {'yes' if control else 'no'}", *control]))
        for key in config.keys:
            lines = [f'name: "{key.name}"', f"algorithm: {key.algorithm}", f'secret: "{key.secret}"']
            parts.append(_clause("key", lines))
        parts += _authentications(config)
        for policy in config.policies:
            parts += [_member_pattern(config, policy, group) for group in policy.groups]
        return {self.config_file: "".join([*parts, *(self._zone(config, zone) for zone in config.zones)])}

    def tuning(self, config: ServerConfig) -> list[TunedLine]:
        return [
            TunedLine("tcp-query-count: 0", "other servers do not limit the queries of a connection"),
            TunedLine("reuseport: yes", "one UDP socket per process, as other servers have one per thread"),
            TunedLine("rrl-ratelimit: 0", "other servers limit no rates by default"),
            TunedLine("refuse-any: no", "other servers answer ANY"),
            TunedLine("xfrd-reload-timeout: 0", "other servers serve a transferred zone at once, not after 1 s"),
            TunedLine(f"xfrd-tcp-max: {config.parallel_transfers}", "as many transfers at once as by all servers"),
            *(TunedLine(line, RETRY_WHY) for line in OF_ZONES if config.primaries),
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
            # Above half of it NSD closes idle connections after 200 ms (`server.c`), where other servers keep theirs.
            f"tcp-count: {2 * config.tcp_clients}",
            f"tcp-timeout: {config.tcp_idle_s}",
            *(line for line in self.tuned(config) if line not in OF_ZONES),
        ]
        if config.certificate and here.tls_port:
            lines += [
                *(f"ip-address: {address}@{here.tls_port}" for address in config.addresses),
                f"tls-{'auth-' if config.client_names else ''}port: {here.tls_port}",
                f'tls-service-key: "{config.certificate.key}"',
                f'tls-service-pem: "{config.certificate.certificate}"',
            ]
        if config.authority:
            lines.append(f'tls-cert-bundle: "{config.authority}"')
        return _clause("server", [*lines, *config.options])

    def _zone(self, config: ServerConfig, zone: Zone) -> str:
        policy = zone.policy
        if policy.member_of:  # only zones that are added while NSD runs become members
            return _clause("pattern", [f'name: "{pattern_of(zone.name)}"', *self._lines(config, zone)])
        return _clause("zone", [f"name: {zone.name}", *CATALOG.get(policy.catalog, []), *self._lines(config, zone)])

    def _lines(self, config: ServerConfig, zone: Zone) -> list[str]:
        policy = zone.policy
        lines = [*_provided(policy), f"zonefile: {zone.file or config.directory / file_of(zone.name)}"]
        lines += [*_requested(config, policy), *(f"notify: {remote.plain} {_key(remote)}" for remote in policy.notify)]
        lines += [f'catalog-producer-zone: "{policy.member_of}"'] if policy.member_of else []
        lines += OF_ZONES if config.tuned and policy.primaries else []
        if config.keeps_zones:
            lines += [*(["multi-master-check: yes"] if policy.primaries else []), *HISTORY]
        return lines


def pattern_of(zone: str) -> str:
    """The pattern with which a member of a produced catalog is added."""
    return f"pattern-{zone}"


def _clause(name: str, lines: list[str]) -> str:
    return f"{name}:\n" + "".join(f" {line}\n" for line in lines)


def _authentications(config: ServerConfig) -> list[str]:
    """The ways to authenticate primaries and clients."""
    found, own = [], config.certificate
    for remote in config.tls_remotes:
        shown = [f'client-cert: "{own.certificate}"', f'client-key: "{own.key}"'] if own and remote.client else []
        lines = [f'name: "{_tls_name(remote)}"', f'auth-domain-name: "{remote.name}"', *shown]
        found.append(_clause("tls-auth", lines))
    return found + [_clause("tls-auth", [f'name: "{n}"', f'auth-domain-name: "{n}"']) for n in config.client_names]


def _member_pattern(config: ServerConfig, policy: ZonePolicy, group: str) -> str:
    """The pattern of the members of a consumed catalog that are in a group."""
    member = ZonePolicy(policy.groups[group], transfer=policy.transfer)
    lines = [f'name: "{group or MEMBERS}"', f"zonefile: {config.directory}/%s.zone"]
    return _clause("pattern", [*lines, *_provided(member), *_requested(config, member)])


def _provided(policy: ZonePolicy) -> list[str]:
    """The clients that may transfer."""
    return [f"provide-xfr: 0.0.0.0/0 {_key(entry)}{_authentication(entry)}" for entry in policy.transfer]


def _requested(config: ServerConfig, policy: ZonePolicy) -> list[str]:
    """The primaries, and who may send NOTIFY."""
    how = "UDP " if policy.udp_ixfr else "" if config.keeps_zones else "AXFR "
    lines = [f"request-xfr: {how}{each.plain} {_key(each)}{_authentication(each)}" for each in policy.primaries]
    return lines + [f"allow-notify: 0.0.0.0/0 {_key(entry)}" for entry in policy.notifiers]


def _key(entry: Remote | Access) -> str:
    return entry.key.name if entry.key else "NOKEY"


def _authentication(entry: Remote | Access) -> str:
    if isinstance(entry.tls, str):
        return f" {entry.tls}"
    return f" {_tls_name(entry.tls)}" if isinstance(entry.tls, TlsRemote) else ""


def _tls_name(remote: TlsRemote) -> str:
    return f"{remote.name}{'-mutual' if remote.client else ''}"
