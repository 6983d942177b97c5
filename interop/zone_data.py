"""The records of a zone file, read by dnspython, which no compared server uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import dns.name
import dns.rdata
import dns.rdataclass
import dns.tokenizer
import dns.zonefile

from dns_numbers import DNAME, DNSKEY, IN, NS, NSEC, NSEC3, RRSIG, SOA
from message import Record, read_rdata
from names import ancestors, is_at_or_below, to_wire, wire_name


@dataclass
class ZoneData:
    """The records of a zone by owner and type; `apex` and owners are in lower-case wire format."""

    apex: bytes
    rrsets: dict[bytes, dict[int, frozenset[Record]]] = field(default_factory=dict)

    @property
    def records(self) -> list[Record]:
        return [r for types in self.rrsets.values() for records in types.values() for r in records]

    def rrset(self, owner: bytes, rtype: int) -> frozenset[Record]:
        return self.rrsets.get(owner, {}).get(rtype, frozenset())

    def cut_above(self, name: bytes) -> bytes | None:
        """The topmost zone cut at or above `name`, if any (RFC 1034 4.3.2 step 3b)."""
        cuts = [a for a in ancestors(name) if a != self.apex and is_at_or_below(a, self.apex) and self.rrset(a, NS)]
        return cuts[-1] if cuts else None

    def dname_above(self, name: bytes) -> bytes | None:
        """The owner of the closest DNAME strictly above `name`, if any."""
        return next((a for a in ancestors(name)[1:] if is_at_or_below(a, self.apex) and self.rrset(a, DNAME)), None)

    def source_of_synthesis(self, name: bytes) -> bytes | None:
        """The wildcard at the closest encloser of a name that does not exist, if there is one (RFC 4592 3.3.1)."""
        encloser = next((a for a in ancestors(name) if a in self.names), name)
        wildcard = b"\1*" + encloser
        return wildcard if encloser != name and wildcard in self.names else None

    @cached_property
    def owners(self) -> dict[bytes, set[int]]:
        """The types at each owner, without RRSIG, NSEC and NSEC3; owners with only these are omitted."""
        owners = {owner: set(types) - {RRSIG, NSEC, NSEC3} for owner, types in self.rrsets.items()}
        return {owner: types for owner, types in owners.items() if types}

    @cached_property
    def names(self) -> frozenset[bytes]:
        """All existing names: owners and empty non-terminals (RFC 4592 2.2.2)."""
        return frozenset(a for owner in self.owners for a in ancestors(owner) if is_at_or_below(a, self.apex))

    @cached_property
    def is_signed(self) -> bool:
        return DNSKEY in self.rrsets.get(self.apex, {})

    @property
    def soa(self) -> Record:
        return next(iter(self.rrset(self.apex, SOA)))


class RecordCollector(dns.zonefile.RRsetsReaderTransaction):
    """Keeps the TTL of each record, where dnspython would build RRsets with one TTL."""

    def __init__(self, origin: dns.name.Name) -> None:
        super().__init__(dns.zonefile.RRSetsReaderManager(origin), True, False)  # type: ignore[no-untyped-call]
        self.records: list[tuple[dns.name.Name, int, dns.rdata.Rdata]] = []

    def add(self, name: dns.name.Name, ttl: int, rdata: dns.rdata.Rdata) -> None:
        self.records.append((name, ttl, rdata))


def read(file: Path, apex: str) -> ZoneData:
    """Reads a zone file; raises dnspython's errors, which contain the line number."""
    collector = RecordCollector(dns.name.from_text(apex))
    with file.open() as text:
        dns.zonefile.Reader(dns.tokenizer.Tokenizer(text, str(file)), dns.rdataclass.IN, collector).read()
    data = ZoneData(wire_name(apex).lower())
    found: dict[bytes, dict[int, set[Record]]] = {}
    for name, ttl, rdata in collector.records:
        owner, rtype = to_wire(name).lower(), int(rdata.rdtype)
        found.setdefault(owner, {}).setdefault(rtype, set()).add(Record(owner, rtype, IN, ttl, canonical(rtype, rdata.to_wire() or b"")))
    data.rrsets = {owner: {rtype: frozenset(records) for rtype, records in types.items()} for owner, types in found.items()}
    return data


def canonical(rtype: int, wire: bytes) -> bytes:
    """RDATA in the form that `message.parse` produces."""
    return read_rdata(wire, 0, len(wire), rtype, {})
