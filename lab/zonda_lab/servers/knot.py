"""CZ.NIC's Knot DNS."""

import re
from collections.abc import Iterable
from pathlib import Path

from zonda_lab.servers.adapter import RETRY_S, RETRY_WHY, SERVING, Adapter, Feature, TunedLine, common_lines, printed
from zonda_lab.servers.config import Access, Remote, ServerConfig, Tsig, Zone, ZonePolicy

RETRY = f"retry-max-interval: {RETRY_S}s"
OF_ALL = ("semantic-checks: off", "zonefile-sync: -1")
OF_FILES = ("zonefile-load: difference", "journal-content: changes")  # zones that are loaded from a file
OF_OTHERS = "zonefile-load: none"
NOT_KEPT = "journal-content: none"
MEMBERS = "members"  # the template of members of a catalog that are in no group


class Knot(Adapter):
    """knot.conf(5); threads, reload by SIGHUP."""

    name, program, package = "knot", "knotd", "knot"
    version_flag, arguments, config_file = "-V", ("-c",), "knot.conf"
    always, tls_since = SERVING | {Feature.UPDATE}, (3, 4)
    in_both = (
        TunedLine(OF_ALL[0], "no optional checks of a zone's content, as by other servers; the default"),
        TunedLine(OF_ALL[1], "zone files are the input of all servers and starts, so none is written"),
        TunedLine(OF_FILES[0], "a reload keeps what updates have changed"),
        TunedLine(OF_FILES[1], "changes are kept for IXFR; the default"),
        TunedLine(OF_OTHERS, "a zone from a primary has no file"),
        TunedLine(NOT_KEPT, "a secondary starts empty, and is not started again"),
    )

    def built_in(self, program: Path) -> frozenset[Feature]:
        has_quic = re.search(r"DoQ support:\s+(?!no)\S", printed([program, "-VV"]))
        return frozenset({Feature.QUIC} if has_quic else ())

    def files(self, config: ServerConfig) -> dict[str, str]:
        return {self.config_file: KnotText(config, self.tuned(config)).text()}

    def tuning(self, config: ServerConfig) -> list[TunedLine]:
        if not config.primaries:
            return []
        parallel = TunedLine(f"background-workers: {config.parallel_transfers}", "as many transfers at once as by all")
        return [parallel, TunedLine(RETRY, RETRY_WHY)]


class KnotText:
    """A configuration file; sections come after those that they refer to."""

    def __init__(self, config: ServerConfig, tuned: list[str]) -> None:
        self.config, self.tuned = config, tuned
        self.remotes: dict[Remote, str] = {}  # with their ids
        self.access: dict[tuple[str, Access], str] = {}  # by action

    def text(self) -> str:
        """The whole file."""
        policies = self.config.policies
        common, own = common_lines({policy: self._rights(policy) for policy in policies})
        groups = [(policy, group) for policy in policies for group in policy.groups]
        templates = [_item(f"id: {group or MEMBERS}", self._member(policy, group)) for policy, group in groups]
        zones = [self._zone(zone, own[zone.policy]) for zone in self.config.zones]
        sections = {
            "key": [self._key(key) for key in self.config.keys],
            "remote": [_item(f"id: {id_}", self._remote(remote)) for remote, id_ in self.remotes.items()],
            "acl": [_item(f"id: {id_}", self._acl(*each)) for each, id_ in self.access.items()],
            "template": [_item("id: default", [*self._storage(), *common]), *templates],
            "zone": zones,
        }
        return self._server() + "".join(f"{name}:\n{''.join(items)}" for name, items in sections.items() if items)

    def _server(self) -> str:
        config, here = self.config, self.config.endpoint
        lines = [
            f"rundir: {config.directory}",
            f"listen: {self._listening(here.port)}",
            f"udp-workers: {config.workers}",
            f"tcp-workers: {config.workers}",
            f"tcp-max-clients: {config.tcp_clients}",
            f"tcp-idle-timeout: {config.tcp_idle_s}",
            *(line for line in self.tuned if line != RETRY),
        ]
        if config.certificate:
            ports = {"tls": here.tls_port, "quic": here.quic_port}
            lines += [f"listen-{name}: {self._listening(port)}" for name, port in ports.items() if port]
            of_quic = [f"quic-max-clients: {config.tcp_clients}", f"quic-idle-close-timeout: {config.tcp_idle_s}"]
            lines += of_quic if here.quic_port else []
            lines += [f"cert-file: {config.certificate.certificate}", f"key-file: {config.certificate.key}"]
            lines += [f"ca-file: {config.certificate.authority}"] if config.certificate.authority else []
        level, control = "warning", ""
        if config.control_port:
            level, control = "info", f"control:\n listen: {config.directory}/control\n"
        log = f"log:\n - target: stdout\n   any: {level}\n"
        server = "server:\n" + "".join(f" {line}\n" for line in [*lines, *config.options])
        return f"{server}{control}{log}database:\n storage: {config.directory}\n"

    def _listening(self, port: int) -> str:
        return f"[{', '.join(f'{address}@{port}' for address in self.config.addresses)}]"

    def _key(self, key: Tsig) -> str:
        return _item(f"id: {key.name}", [f"algorithm: {key.algorithm}", f"secret: {key.secret}"])

    def _storage(self) -> list[str]:
        return [f"storage: {self.config.directory}", *OF_ALL]

    def _rights(self, policy: ZonePolicy) -> list[str]:
        """Who may do what, who is notified, and where the zone is loaded from."""
        entries = (("transfer", policy.transfer), ("notify", policy.notifiers), ("update", policy.update))
        ids = [self._id_of_access(action, entry) for action, allowed in entries for entry in allowed]
        has_file = not policy.primaries and policy.catalog != "produce"
        received = "journal-content: all" if self.config.keeps_zones else NOT_KEPT
        lines = [f"acl: [{', '.join(ids)}]", *(OF_FILES if has_file else (OF_OTHERS, received))]
        lines += [f"notify: {self._ids(policy.notify)}"] if policy.notify else []
        return lines + ([RETRY] if RETRY in self.tuned and policy.primaries else [])

    def _member(self, policy: ZonePolicy, group: str) -> list[str]:
        """The template of the members of a group, which have the rights of the catalog."""
        primaries = policy.groups[group]
        member = ZonePolicy(primaries, transfer=policy.transfer)
        return [*self._storage(), *self._rights(member), f"master: {self._ids(primaries)}"]

    def _zone(self, zone: Zone, own: list[str]) -> str:
        policy, lines = zone.policy, list[str]()
        lines += [f"file: {zone.file}"] if zone.file else []
        lines += [f"master: {self._ids(policy.primaries)}"] if policy.primaries else []
        lines += [f"ddns-master: {self._id(policy.primaries[0])}"] if policy.forward_updates else []
        if policy.catalog == "consume":
            templates = ", ".join(group or MEMBERS for group in policy.groups)
            lines += ["catalog-role: interpret", f"catalog-template: [{templates}]"]
        elif policy.catalog == "produce":
            lines += ["catalog-role: generate"]
        if policy.member_of:
            lines += ["catalog-role: member", f"catalog-zone: {policy.member_of}"]
        return _item(f'domain: "{zone.name}"', [*lines, *own])

    def _acl(self, action: str, entry: Access) -> list[str]:
        lines = ["address: 0.0.0.0/0", f"action: {action}"]
        lines += [f"key: {entry.key.name}"] if entry.key else []
        lines += [f"protocol: {'quic' if self.config.endpoint.quic_port else 'tls'}"] if entry.tls else []
        return [*lines, f"cert-hostname: {entry.tls}"] if isinstance(entry.tls, str) else lines

    def _remote(self, remote: Remote) -> list[str]:
        lines = [f"address: {remote.plain}"]
        lines += [f"key: {remote.key.name}"] if remote.key else []
        if tls := remote.tls:
            # Without an authority of its own, it verifies no name.
            verifies = tls.name and self.config.certificate and self.config.certificate.authority
            lines.append(f"{'quic' if tls.quic else 'tls'}: on")
            lines += [f"cert-hostname: {tls.name}"] if verifies else []
            lines += [f"cert-key: {tls.pin}"] if tls.pin else []
        return lines

    def _id_of_access(self, action: str, entry: Access) -> str:
        return self.access.setdefault((action, entry), f"{action}{len(self.access)}")

    def _id(self, remote: Remote) -> str:
        return self.remotes.setdefault(remote, f"remote{len(self.remotes)}")

    def _ids(self, remotes: Iterable[Remote]) -> str:
        return f"[{', '.join(map(self._id, remotes))}]"


def _item(first: str, lines: Iterable[str]) -> str:
    return f" - {first}\n" + "".join(f"   {line}\n" for line in lines)
