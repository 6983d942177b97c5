"""The zones of a run together: which one a question belongs to, and what an answer says about the names on its way."""

from __future__ import annotations

from dataclasses import dataclass

from message import AA, CNAME, DS, NS, NSEC, NSEC3, RRSIG, SOA, Answer, Question, Record
from names import ancestors, parent
from zonedata import ZoneData


@dataclass(frozen=True)
class ZoneSet:
    """All zones served in a run, by apex."""

    zones: dict[bytes, ZoneData]

    def zone_of(self, name: bytes, qtype: int = 0) -> ZoneData | None:
        """The zone that answers for a name: the longest apex above it, for DS the parent's (RFC 4035 3.1.4.1)."""
        name = name.lower()
        found = next((self.zones[a] for a in ancestors(name) if a in self.zones), None)
        if found and qtype == DS and name == found.apex and name != b"\0":
            return self.zone_of(parent(name)) or found
        return found


def chain(question: Question, message: Answer) -> list[bytes]:
    """The names an answer leads through: the question's, then each alias target, until there is no further alias or a name comes again."""
    name = question.name.lower()
    aliases = {r.owner: r.rdata for r in message.answer if r.rtype == CNAME}
    names = [name]
    while name in aliases and question.qtype not in (CNAME,):
        name = aliases[name]
        if name in names:
            break
        names.append(name)
    return names


def hands_over(message: Answer) -> bool:
    """Whether the answer is a referral or ends in one, behind aliases (RFC 1034 4.3.2 3b)."""
    types = {r.rtype for r in message.authority}
    return NS in types and SOA not in types


def is_referral(message: Answer) -> bool:
    """Whether the answer is nothing but a referral (RFC 2308 2.1: NS and no SOA)."""
    return hands_over(message) and not message.has(AA) and not message.answer


def covered(record: Record) -> int:
    """The type a signature covers (RFC 4034 3.1.1), or the record's own type."""
    return int.from_bytes(record.rdata[:2]) if record.rtype == RRSIG else record.rtype


def is_denial(record: Record) -> bool:
    return covered(record) in (NSEC, NSEC3)
