"""CZ.NIC's Knot DNS."""

from __future__ import annotations

from pathlib import Path

from zonda_lab.model import Setup, Zone
from zonda_lab.servers.adapter import SERVING, Adapter, Feature, at_least


class Knot(Adapter):
    """knot.conf(5); threads, reload by SIGHUP."""

    name, program, package = "knot", "knotd", "knot"

    def features(self, version: str) -> frozenset[Feature]:
        """TLS in both directions since 3.4."""
        newer = {Feature.TLS, Feature.XOT_IN, Feature.XOT_OUT} if at_least(version, 3, 4) else set()
        return SERVING | {Feature.UPDATE} | newer

    def version_command(self, program: Path) -> list[str | Path]:
        """`knotd -V`."""
        return [program, "-V"]

    def command(self, program: Path, setup: Setup) -> list[str | Path]:
        """In the foreground, with our file."""
        return [program, "-c", setup.directory / "knot.conf"]

    def files(self, setup: Setup) -> dict[str, str]:
        """One file: what all zones share is in the default template."""
        parts = [self._server(setup)]
        if setup.tsig:
            parts.append(
                f" - id: {setup.tsig.name}\n   algorithm: {setup.tsig.algorithm}\n   secret: {setup.tsig.secret}\n"
            )
            parts.insert(1, "key:\n")
        parts += [self._access(setup), self._remotes(setup), self._template(setup), "zone:\n"]
        parts += [self._zone(setup, zone) for zone in setup.zones]
        return {"knot.conf": "".join(parts)}

    def _server(self, setup: Setup) -> str:
        here = setup.endpoint
        lines = [
            f"rundir: {setup.directory}",
            f"listen: [{', '.join(f'{address}@{here.port}' for address in setup.addresses)}]",
            f"udp-workers: {setup.workers}",
            f"tcp-workers: {setup.workers}",
            "background-workers: 2",
            f"tcp-max-clients: {setup.tcp_clients}",
            f"tcp-idle-timeout: {setup.tcp_idle_s}",
        ]
        if setup.certificate:
            lines += [
                f"listen-tls: [{', '.join(f'{address}@{here.tls_port}' for address in setup.addresses)}]",
                f"cert-file: {setup.certificate.certificate}",
                f"key-file: {setup.certificate.key}",
            ]
        log = f"log:\n - target: stdout\n   any: warning\ndatabase:\n storage: {setup.directory}\n"
        return "server:\n" + "".join(f" {line}\n" for line in [*lines, *setup.options]) + log

    def _access(self, setup: Setup) -> str:
        key = f"   key: {setup.tsig.name}\n" if setup.tsig else ""
        actions = "[transfer, update]" if setup.updates else "transfer"
        return (
            f"acl:\n - id: trusted\n   address: 0.0.0.0/0\n   action: {actions}\n{key}"
            " - id: change\n   address: 0.0.0.0/0\n   action: notify\n"
        )

    def _remotes(self, setup: Setup) -> str:
        remotes = [f" - id: secondary{i}\n   address: {to.plain}\n" for i, to in enumerate(setup.notify)]
        for i, primary in enumerate(setup.primaries):
            port = primary.endpoint.tls_port if primary.tls else primary.endpoint.port
            remotes.append(f" - id: primary{i}\n   address: {primary.endpoint.address}@{port}\n")
            remotes += ["   tls: on\n"] if primary.tls else []
            remotes += [f"   key: {setup.tsig.name}\n"] if setup.tsig else []
        return "remote:\n" + "".join(remotes) if remotes else ""

    def _template(self, setup: Setup) -> str:
        source = (
            "   zonefile-load: none\n   journal-content: none\n"
            if setup.primaries
            else "   zonefile-load: difference\n   journal-content: changes\n"
        )
        notify = (
            f"   notify: [{', '.join(f'secondary{i}' for i in range(len(setup.notify)))}]\n" if setup.notify else ""
        )
        return (
            f"template:\n - id: default\n   storage: {setup.directory}\n   semantic-checks: off\n   zonefile-sync: -1\n"
            f"   acl: [trusted, change]\n{source}{notify}"
        )

    def _zone(self, setup: Setup, zone: Zone) -> str:
        source = f"master: primary{setup.primaries.index(zone.primary)}" if zone.primary else f"file: {zone.file}"
        return f' - domain: "{zone.name}"\n   {source}\n'
