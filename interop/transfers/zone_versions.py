"""The versions of the test zone: records of many types, and a chain of changes between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

ZONE = "transfer.example."
FIRST_SERIAL = 4294967290  # the chain of changes passes the end of the serial space (RFC 1982)

RECORDS = {
    ("@", "NS"): ["ns1", "ns2.other.example."],
    ("@", "MX"): ["10 mail", "20 mail.other.example."],
    ("@", "TXT"): ['"v=spf1 -all"', '"two" "strings"', '""'],
    ("@", "CAA"): ['0 issue "ca.example"'],
    ("@", "HTTPS"): ["1 . alpn=h2,h3 ipv4hint=192.0.2.80"],
    ("ns1", "A"): ["192.0.2.1"],
    ("ns1", "AAAA"): ["2001:db8::1"],
    ("mail", "A"): ["192.0.2.25", "192.0.2.26"],
    ("www", "CNAME"): ["web"],
    ("web", "A"): ["192.0.2.80"],
    ("*.wild", "TXT"): ['"wildcard"'],
    ("_sip._udp", "SRV"): ["0 5 5060 sip", "10 5 5060 sip.other.example."],
    ("naptr", "NAPTR"): ['100 10 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .'],
    ("svc", "SVCB"): ["2 web port=8443"],
    ("old", "DNAME"): ["new.example."],
    ("child", "NS"): ["ns.child", "ns2.other.example."],
    ("child", "DS"): ["12345 13 2 " + "A1" * 32],
    ("ns.child", "A"): ["192.0.2.53"],
    ("unknown", "TYPE65280"): ["\\# 5 0102030405"],
    ("loc", "LOC"): ["52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"],
    ("ssh", "SSHFP"): ["4 2 " + "0B" * 32],
    ("_443._tcp.web", "TLSA"): ["3 1 1 " + "0C" * 32],
    ("mixed.CASE", "TXT"): ['"Case"'],
    ("esc\\.aped\\032name", "A"): ["192.0.2.99"],
}


@dataclass
class ZoneText:
    """A version of the test zone; `text` is its zone file."""

    serial: int
    refresh: int = 3600
    retry: int = 600
    expire: int = 86400
    name: str = ZONE
    ttls: dict[tuple[str, str], int] = field(default_factory=dict)
    records: dict[tuple[str, str], list[str]] = field(default_factory=lambda: {key: list(values) for key, values in RECORDS.items()})

    def text(self) -> str:
        lines = [f"$ORIGIN {self.name}", "$TTL 3600"]
        lines.append(f"@ SOA ns1 hostmaster {self.serial} {self.refresh} {self.retry} {self.expire} 300")
        for (owner, rtype), values in self.records.items():
            ttl = self.ttls.get((owner, rtype), 3600)
            lines += [f"{owner} {ttl} {rtype} {rdata}" for rdata in values]
        return "\n".join(lines) + "\n"

    def next(self, change: Callable[[ZoneText], None] = lambda _: None) -> ZoneText:
        """The version after this one."""
        records = {key: list(values) for key, values in self.records.items()}
        following = ZoneText((self.serial + 1) % (1 << 32), self.refresh, self.retry, self.expire, self.name, dict(self.ttls), records)
        change(following)
        return following


def big(version: ZoneText, hosts: int = 4000) -> ZoneText:
    """The version with many hosts, whose transfer needs several messages."""
    for number in range(hosts):
        version.records[f"host{number}", "A"] = [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"]
        version.records[f"host{number}", "TXT"] = [f'"{number:0100}"']
    return version


# --- The changes, in order


def add_names(version: ZoneText) -> None:
    version.records["new", "A"] = ["192.0.2.200"]
    version.records["a.b.c.deep", "TXT"] = ['"below empty non-terminals"']


def remove_a_name(version: ZoneText) -> None:
    del version.records["a.b.c.deep", "TXT"]


def change_a_ttl(version: ZoneText) -> None:
    version.ttls["mail", "A"] = 60


def change_one_record_of_a_set(version: ZoneText) -> None:
    version.records["mail", "A"] = ["192.0.2.26", "192.0.2.27"]


def change_nothing_but_the_serial(version: ZoneText) -> None:
    """RFC 1995: a valid change."""


def replace_an_alias_by_addresses(version: ZoneText) -> None:
    version.records["www", "A"] = version.records["web", "A"]
    del version.records["www", "CNAME"]


def remove_a_delegation(version: ZoneText) -> None:
    for key in (("child", "NS"), ("child", "DS"), ("ns.child", "A")):
        del version.records[key]


def delegate_names_with_records(version: ZoneText) -> None:
    version.records["svc", "NS"] = ["ns.other.example."]
    del version.records["svc", "SVCB"]


def change_the_apex(version: ZoneText) -> None:
    version.records["@", "NS"] = ["ns1", "ns3.other.example."]
    version.refresh = 7200


def change_many_records(version: ZoneText) -> None:
    for number in range(300):
        version.records[f"many{number}", "TXT"] = [f'"{number:0150}"']


def remove_many_records(version: ZoneText) -> None:
    for number in range(0, 300, 2):
        del version.records[f"many{number}", "TXT"]


CHANGES = [
    add_names,
    remove_a_name,
    change_a_ttl,
    change_one_record_of_a_set,
    change_nothing_but_the_serial,
    replace_an_alias_by_addresses,
    remove_a_delegation,
    delegate_names_with_records,
    change_the_apex,
    change_many_records,
    remove_many_records,
]
