"""ISC's BIND 9."""

from __future__ import annotations

from pathlib import Path

from zonda_lab.model import Setup, Zone
from zonda_lab.servers.adapter import SERVING, Adapter, Feature, at_least


class Bind(Adapter):
    """named.conf(5); threads, reload by SIGHUP."""

    name, program, package = "bind", "named", "bind9"

    def features(self, version: str) -> frozenset[Feature]:
        """TLS in both directions since 9.18."""
        newer = {Feature.TLS, Feature.XOT_IN, Feature.XOT_OUT} if at_least(version, 9, 18) else set()
        return SERVING | {Feature.UPDATE} | newer

    def version_command(self, program: Path) -> list[str | Path]:
        """`named -v`."""
        return [program, "-v"]

    def command(self, program: Path, setup: Setup) -> list[str | Path]:
        """In the foreground, logging to standard error."""
        return [program, "-g", "-n", str(setup.workers), "-c", setup.directory / "named.conf"]

    def files(self, setup: Setup) -> dict[str, str]:
        """One file."""
        parts = [self._options(setup), "controls { };\n", "logging { category default { default_stderr; }; };\n"]
        if setup.tsig:
            parts.append(
                f'key "{setup.tsig.name}" {{ algorithm {setup.tsig.algorithm}; secret "{setup.tsig.secret}"; }};\n'
            )
        if setup.certificate:
            parts.append(
                f'tls service {{ cert-file "{setup.certificate.certificate}"; key-file "{setup.certificate.key}"; }};\n'
            )
        if setup.authority:
            parts.append(
                f'tls primary {{ ca-file "{setup.authority.certificate}";'
                f' remote-hostname "{setup.authority.name}"; }};\n'
            )
        parts += [self._zone(setup, zone) for zone in setup.zones]
        return {"named.conf": "".join(parts)}

    def _options(self, setup: Setup) -> str:
        here, addresses = setup.endpoint, " ".join(f"{address};" for address in setup.addresses)
        trusted = f'{{ key "{setup.tsig.name}"; }}' if setup.tsig else "{ any; }"
        lines = [
            f'directory "{setup.directory}"',
            "pid-file none",
            f"listen-on port {here.port} {{ {addresses} }}",
            "listen-on-v6 { none; }",
            "recursion no",
            "minimal-responses no-auth-recursive",
            "check-names primary ignore",
            "dnssec-validation no",
            "rrset-order { order none; }",
            f"allow-transfer {trusted}",
            *(["allow-notify { any; }"] if setup.primaries else []),
            *([f"allow-update {trusted}"] if setup.updates else []),
            f"tcp-clients {setup.tcp_clients}",
            f"tcp-idle-timeout {setup.tcp_idle_s * 10}",
            f"transfers-in {setup.parallel_transfers}",
            f"transfers-per-ns {setup.parallel_transfers}",
            "transfers-out 1000",
            "serial-query-rate 10000",
            "startup-notify-rate 10000",
            "notify " + ("explicit" if setup.notify else "no"),
        ]
        if setup.notify:
            lines.append("also-notify { " + " ".join(f"{to.address} port {to.port};" for to in setup.notify) + " }")
        if setup.certificate:
            lines.append(f"listen-on port {here.tls_port} tls service {{ {addresses} }}")
        return "options {\n" + "".join(f"  {line};\n" for line in [*lines, *setup.options]) + "};\n"

    def _zone(self, setup: Setup, zone: Zone) -> str:
        if not zone.primary:
            return f'zone "{zone.name}" {{ type primary; file "{zone.file}"; }};\n'
        there, tls = zone.primary.endpoint, zone.primary.tls
        port = there.tls_port if tls else there.port
        key = f' key "{setup.tsig.name}"' if setup.tsig else ""
        using = " tls primary" if tls else ""
        return f'zone "{zone.name}" {{ type secondary; primaries port {port} {{ {there.address}{key}{using}; }}; }};\n'
