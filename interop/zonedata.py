"""A zone's records as the file has them, read by dnspython: a reader independent of every server under test."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import dns.name
import dns.rdataclass
import dns.zonefile
import dns.zone

from message import DNAME, DNSKEY, IN, NS, NSEC, NSEC3, RRSIG, SOA, Record, ancestors, is_below, read_rdata


@dataclass
class ZoneData:
    """The records of a zone by owner and type; `apex` and owners are wire format, lower case."""

    apex: bytes
    sets: dict[bytes, dict[int, frozenset[Record]]] = field(default_factory=dict)

    @property
    def records(self) -> list[Record]:
        return [r for types in self.sets.values() for records in types.values() for r in records]

    def set_of(self, owner: bytes, rtype: int) -> frozenset[Record]:
        return self.sets.get(owner, {}).get(rtype, frozenset())

    def cut_above(self, name: bytes) -> bytes | None:
        """The topmost delegation at or above `name`, if there is one (RFC 1034 4.3.2 step 3b)."""
        cuts = [a for a in ancestors(name) if a != self.apex and is_below(a, self.apex) and self.set_of(a, NS)]
        return cuts[-1] if cuts else None

    def dname_above(self, name: bytes) -> bytes | None:
        """The owner of a DNAME strictly above `name`, if there is one."""
        return next((a for a in ancestors(name)[1:] if is_below(a, self.apex) and self.set_of(a, DNAME)), None)

    @cached_property
    def owners(self) -> dict[bytes, set[int]]:
        """The types at every owner, without signatures and denial; the hashed owners of NSEC3 records are left out."""
        owners = {owner: set(types) - {RRSIG, NSEC, NSEC3} for owner, types in self.sets.items()}
        return {owner: types for owner, types in owners.items() if types}

    @cached_property
    def names(self) -> frozenset[bytes]:
        """Every name that exists: owners and empty non-terminals (RFC 4592 2.2.2)."""
        return frozenset(a for owner in self.owners for a in ancestors(owner) if is_below(a, self.apex))

    @cached_property
    def is_signed(self) -> bool:
        return DNSKEY in self.sets.get(self.apex, {})

    @property
    def soa(self) -> Record:
        return next(iter(self.set_of(self.apex, SOA)))


def read(file: Path, apex: str) -> ZoneData:
    """Reads a zone file; raises dnspython's errors, which name the line."""
    origin = dns.name.from_text(apex)
    zone = dns.zone.from_file(str(file), origin, relativize=False, check_origin=False)
    data = ZoneData(origin.to_wire().lower())
    for name, rdataset in zone.iterate_rdatasets():
        owner = name.to_wire().lower()
        rtype = int(rdataset.rdtype)
        records = frozenset(Record(owner, rtype, IN, rdataset.ttl, canonical(rtype, rdata.to_wire(origin=origin))) for rdata in rdataset)
        types = data.sets.setdefault(owner, {})
        types[rtype] = types.get(rtype, frozenset()) | records
    return data


def canonical(rtype: int, wire: bytes) -> bytes:
    """Record data in the form `message.parse` gives."""
    return read_rdata(wire, 0, len(wire), rtype, {})
