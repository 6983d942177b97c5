"""The zones served together, and the alias chain and referral in a response."""

from __future__ import annotations

from dataclasses import dataclass

from dns_numbers import AA, CNAME, DS, NS, NSEC, NSEC3, RRSIG, SOA
from message import Query, Record, Response
from names import ancestors, parent
from zone_data import ZoneData


@dataclass(frozen=True)
class ZoneSet:
    """The zones served together, by apex."""

    zones: dict[bytes, ZoneData]

    def zone_of(self, name: bytes, qtype: int = 0) -> ZoneData | None:
        """The zone that answers for a name: the one with the longest matching apex; at an apex, DS belongs to the parent (RFC 4035 3.1.4.1)."""
        name = name.lower()
        found = next((self.zones[a] for a in ancestors(name) if a in self.zones), None)
        if found and qtype == DS and name == found.apex and name != b"\0":
            return self.zone_of(parent(name)) or found
        return found


def alias_chain(query: Query, response: Response) -> list[bytes]:
    """The QNAME and each CNAME target that follows from it, up to the last one or the first repetition."""
    name = query.name.lower()
    aliases = {r.owner: r.rdata for r in response.answer if r.rtype == CNAME}
    names = [name]
    while name in aliases and query.qtype != CNAME:
        name = aliases[name]
        if name in names:
            break
        names.append(name)
    return names


def ends_in_referral(response: Response) -> bool:
    """Whether the response is a referral, possibly after aliases (RFC 1034 4.3.2 3b)."""
    types = {r.rtype for r in response.authority}
    return NS in types and SOA not in types


def is_referral(response: Response) -> bool:
    """Whether the response is only a referral (RFC 2308 2.1: NS and no SOA)."""
    return ends_in_referral(response) and not response.has(AA) and not response.answer


def covered_type(record: Record) -> int:
    """The type that an RRSIG covers (RFC 4034 3.1.1); for other records their own type."""
    return int.from_bytes(record.rdata[:2]) if record.rtype == RRSIG else record.rtype


def is_denial(record: Record) -> bool:
    return covered_type(record) in (NSEC, NSEC3)
