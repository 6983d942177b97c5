"""The features of the table, and why a server does not have one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transfers import catalog_features, gov_series, notify_features, restart_features, transfer_features, tsig_features, update_features
from transfers.cell import Cell
from transfers.server import Build
from transfers.tls_features import wrong_name, wrong_name_over_quic, wrong_pin, xot

AS_PRIMARY, AS_SECONDARY = "primary", "secondary"


@dataclass(frozen=True)
class Feature:
    """A row of the table: its name, its group, its test, and the lack of a build in a role, if there is one."""

    name: str
    group: str
    test: Callable[[Cell], None]

    def lack(self, build: Build, role: str) -> str | None:
        """Why this build cannot do this as primary or secondary; None if it can."""
        for lack in LACKS:
            if lack.applies(self, build, role):
                return lack.reason
        return None


FEATURES = [
    Feature("AXFR", "axfr", transfer_features.axfr),
    Feature("refresh", "refresh", transfer_features.refresh),
    Feature("NOTIFY", "notify", notify_features.notify),
    Feature("NOTIFY with TSIG", "notify", tsig_features.signed_notify),
    Feature("NOTIFY over TLS", "notify", notify_features.notify_over_tls),
    Feature("NOTIFY to name servers", "notify", notify_features.notify_name_servers),
    Feature("IXFR", "ixfr", transfer_features.ixfr),
    Feature("IXFR over UDP", "ixfr-udp", transfer_features.ixfr_over_udp),
    *[Feature(f"TSIG {algorithm}", "tsig", tsig_features.tsig(algorithm)) for algorithm in tsig_features.ALGORITHMS],
    Feature("TSIG, wrong secret", "tsig", tsig_features.wrong_key),
    Feature("TSIG, key rollover", "tsig", tsig_features.rollover),
    Feature("forced retransfer", "retransfer", transfer_features.retransfer),
    Feature("expiry", "expiry", transfer_features.expiry),
    Feature("expired, older serial", "expiry", transfer_features.expired_accepts_older_serial),
    Feature("older serial refused", "refresh", transfer_features.older_serial),
    Feature("restart without primary", "restart", restart_features.restart_without_primary),
    Feature("secondary killed, IXFR", "restart", restart_features.secondary_killed),
    Feature("primary killed, IXFR", "restart", restart_features.primary_killed),
    Feature("several primaries, failover", "primaries", transfer_features.failover),
    Feature("several primaries, highest serial", "primaries", transfer_features.highest_serial),
    Feature("catalog consumed", "catalog-consume", catalog_features.catalog_consumed),
    Feature("catalog groups", "catalog-consume", catalog_features.catalog_groups),
    Feature("catalog produced", "catalog-produce", catalog_features.catalog_produced),
    Feature("update, nsupdate", "update", update_features.update("nsupdate")),
    Feature("update, knsupdate", "update", update_features.update("knsupdate")),
    Feature("update, forwarded", "forwarding", update_features.update_forwarded),
    Feature("XoT, opportunistic", "xot", xot("opportunistic")),
    Feature("XoT, strict", "xot", xot("strict")),
    Feature("XoT, wrong name", "xot", wrong_name),
    Feature("XoT, mutual", "xot", xot("mutual")),
    Feature("XoT, pinned key", "xot", xot("pin")),
    Feature("XoT, wrong pin", "xot", wrong_pin),
    *[Feature(f"XoQ, {name}", "xoq", xot(name, quic=True)) for name in ("opportunistic", "strict", "mutual")],
    Feature("XoQ, pinned key", "xoq", xot("pin", quic=True)),
    Feature("XoQ, wrong name", "xoq", wrong_name_over_quic),
    Feature("update, forwarded over TLS", "forwarding", update_features.update_forwarded_over_tls),
    Feature("45 downloads of .gov", "gov", gov_series.gov_series),
]


@dataclass(frozen=True)
class Lack:
    """What a server, in a role or in both, does not do before a release, or in any (None)."""

    server: str
    features: str  # a group, or the name of a feature
    reason: str
    role: str | None = None
    before: tuple[int, ...] | None = None

    def applies(self, feature: Feature, build: Build, role: str) -> bool:
        is_meant = build.name == self.server and self.features in (feature.group, feature.name) and self.role in (None, role)
        return is_meant and (self.before is None or build.release < self.before)


LACKS = [
    Lack("nsd", "update", "NSD has no dynamic update", AS_PRIMARY),
    Lack("nsd", "forwarding", "NSD has no dynamic update"),
    Lack("nsd", "catalog-consume", "NSD has catalogs since 4.9", AS_SECONDARY, (4, 9)),
    Lack("nsd", "catalog-produce", "NSD has catalogs since 4.9", None, (4, 9)),
    Lack("nsd", "XoT, opportunistic", "NSD always authenticates primaries", AS_SECONDARY),
    Lack("nsd", "xot", "this NSD selects no ALPN, which RFC 9103 7.1 requires", AS_PRIMARY, (4, 7)),
    Lack("knot", "xot", "Knot has XoT since 3.5", None, (3, 5)),
    Lack("nsd", "xoq", "NSD has no QUIC"),
    Lack("bind", "xoq", "BIND has no QUIC"),
    Lack("knot", "xoq", "Knot asks over QUIC with message IDs other than 0, an error that ends the connection (RFC 9250 4.2.1, 4.3.3)", AS_SECONDARY),
    Lack("knot", "xoq", "Knot verifies names over QUIC since 3.5", AS_PRIMARY, (3, 5)),
    Lack("nsd", "XoT, pinned key", "NSD does not pin keys", AS_SECONDARY),
    Lack("nsd", "XoT, wrong pin", "NSD does not pin keys", AS_SECONDARY),
    Lack("bind", "XoT, pinned key", "BIND does not pin keys", AS_SECONDARY),
    Lack("bind", "XoT, wrong pin", "BIND does not pin keys", AS_SECONDARY),
    Lack("nsd", "NOTIFY over TLS", "NSD sends NOTIFY over UDP only", AS_PRIMARY),
    Lack("nsd", "NOTIFY over TLS", "this NSD selects no ALPN, which Zonda requires", AS_SECONDARY, (4, 7)),
    Lack("knot", "NOTIFY over TLS", "Knot has TLS since 3.5", None, (3, 5)),
    Lack("bind", "NOTIFY over TLS", "BIND 9.18 sends NOTIFY without TLS", AS_PRIMARY, (9, 19)),
    Lack("bind", "update, forwarded over TLS", "BIND 9.18 forwards updates without TLS", AS_SECONDARY, (9, 19)),
    Lack("knot", "update, forwarded over TLS", "Knot has XoT since 3.5", None, (3, 5)),
    *[Lack(server, "NOTIFY to name servers", "a test of notify-ns of Zonda", AS_PRIMARY) for server in ("nsd", "knot", "bind")],
    *[Lack(server, "secondary killed, IXFR", "a test of the journal of Zonda", AS_SECONDARY) for server in ("nsd", "knot", "bind")],
    *[Lack(server, "primary killed, IXFR", "a test of the journal of Zonda", AS_PRIMARY) for server in ("nsd", "knot", "bind")],
    Lack("bind", "catalog groups", "BIND has no templates for groups", AS_SECONDARY),
    Lack("bind", "catalog-produce", "BIND does not produce catalogs", AS_PRIMARY),
    Lack("knot", "ixfr-udp", "Knot asks over TCP only", AS_SECONDARY),
    Lack("bind", "ixfr-udp", "BIND asks over TCP only", AS_SECONDARY),
    Lack("zonda", "ixfr-udp", "Zonda asks over TCP only", AS_SECONDARY),
    Lack("nsd", "expired, older serial", "NSD refuses older serials for expired zones too", AS_SECONDARY),
    Lack("bind", "several primaries, highest serial", "BIND takes the first primary with a later serial", AS_SECONDARY),
    Lack("knot", "several primaries, highest serial", "Knot takes the first primary with a later serial", AS_SECONDARY),
]
