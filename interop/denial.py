"""What NSEC and NSEC3 records prove, as a validator reads them (RFC 4035 5.4, RFC 5155 8, RFC 6840 4)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Protocol

from message import CNAME, DNAME, DS, NS, NSEC, NSEC3, SOA, Record
from names import ancestors, from_labels, is_below, labels, read_name

OPT_OUT = 1


class Denial(Protocol):
    """The denial records of one answer from one zone. Every method says whether they prove what its name says."""

    def no_name(self, name: bytes) -> bool:
        """Neither the name nor a wildcard for it exists."""

    def no_data(self, name: bytes, qtype: int) -> bool:
        """The name, or the wildcard that stands for it, has no such type and no alias."""

    def no_closer(self, name: bytes, encloser: bytes) -> bool:
        """Nothing stands between the name and the wildcard under `encloser` that answered for it."""

    def no_ds(self, cut: bytes) -> bool:
        """The delegation is not signed."""

    def leaves_out(self, encloser: bytes, name: bytes) -> bool:
        """Opt-out hides the closest encloser of the name, and a wildcard below the next one keeps all from being proved (erratum 3441)."""


def denial(records: Iterable[Record], apex: bytes) -> Denial:
    """The NSEC3 records among these if there are any, else the NSEC records."""
    records = [r for r in records if is_below(r.owner, apex)]
    if hashed := [Link3.of(r) for r in records if r.rtype == NSEC3]:
        return Nsec3Denial(apex, hashed)
    return NsecDenial(apex, [Link.of(r) for r in records if r.rtype == NSEC])


def order(name: bytes) -> list[bytes]:
    """The key by which names sort canonically (RFC 4034 6.1)."""
    return labels(name)[::-1]


def between(low: list[bytes], high: list[bytes], middle: list[bytes]) -> bool:
    """Whether `middle` lies strictly between `low` and `high`, where the last link leads round to the first."""
    return low < middle < high if low < high else middle > low or middle < high


def type_bits(bitmap: bytes) -> frozenset[int]:
    """The types in a type bit map (RFC 4034 4.1.2)."""
    types, at = set(), 0
    while at + 2 <= len(bitmap):
        window, length = bitmap[at], bitmap[at + 1]
        for index, octet in enumerate(bitmap[at + 2 : at + 2 + length]):
            types |= {window << 8 | index << 3 | bit for bit in range(8) if octet & 0x80 >> bit}
        at += 2 + length
    return frozenset(types)


def wildcard(encloser: bytes) -> bytes:
    return b"\1*" + encloser


def common(a: bytes, b: bytes) -> bytes:
    """The longest name above both."""
    return next(name for name in ancestors(a) if is_below(b, name))


@dataclass(frozen=True)
class Link:
    """One NSEC record."""

    owner: bytes
    following: bytes
    types: frozenset[int]

    @classmethod
    def of(cls, record: Record) -> Link:
        following, at = read_name(record.rdata, 0, {})
        return cls(record.owner, following.lower(), type_bits(record.rdata[at:]))

    def covers(self, name: bytes) -> bool:
        """RFC 6840 4.1: the NSEC of a delegation or of a DNAME says nothing of the names below."""
        if is_below(name, self.owner) and (DNAME in self.types or (NS in self.types and SOA not in self.types)):
            return False
        return between(*self.span, order(name))

    @cached_property
    def span(self) -> tuple[list[bytes], list[bytes]]:
        return order(self.owner), order(self.following)


@dataclass(frozen=True)
class NsecDenial:
    apex: bytes
    links: list[Link]

    def at(self, name: bytes) -> Link | None:
        return next((link for link in self.links if link.owner == name), None)

    def cover(self, name: bytes) -> Link | None:
        return next((link for link in self.links if link.covers(name)), None)

    def encloser(self, name: bytes, link: Link) -> bytes:
        """The closest encloser that a covering record shows: the longest of what its two names share with `name`."""
        return max(common(name, link.owner), common(name, link.following), key=len)

    def no_name(self, name: bytes) -> bool:
        return (encloser := self.encloser_of_absent(name)) is not None and self.encloser_of_absent(wildcard(encloser)) is not None

    def encloser_of_absent(self, name: bytes) -> bytes | None:
        """The closest encloser of a name that is proved not to exist: covered, and no empty non-terminal."""
        link = self.cover(name)
        encloser = self.encloser(name, link) if link else name
        return None if encloser == name else encloser

    def no_data(self, name: bytes, qtype: int) -> bool:
        if self.no_data_at(name, qtype):
            return True
        link = self.cover(name)
        return link is not None and self.no_data_at(wildcard(self.encloser(name, link)), qtype)

    def no_data_at(self, name: bytes, qtype: int) -> bool:
        """The name has no such type, or is an empty non-terminal: the next name is below it."""
        if link := self.at(name):
            return lacks(link.types, qtype, name == self.apex)
        return any(is_below(link.following, name) for link in self.links if link.covers(name))

    def no_closer(self, name: bytes, encloser: bytes) -> bool:
        found = self.encloser_of_absent(name)
        return found is not None and len(found) <= len(encloser)

    def no_ds(self, cut: bytes) -> bool:
        link = self.at(cut)
        return link is not None and lacks_ds(link.types)

    def leaves_out(self, encloser: bytes, name: bytes) -> bool:
        return False


@dataclass(frozen=True)
class Link3:
    """One NSEC3 record; hashes are octets."""

    owner: bytes
    following: bytes
    flags: int
    iterations: int
    salt: bytes
    types: frozenset[int]

    @classmethod
    def of(cls, record: Record) -> Link3:
        data = record.rdata
        salt_end = 5 + data[4]
        hash_end = salt_end + 1 + data[salt_end]
        owner = base64.b32hexdecode(labels(record.owner)[0].upper())
        return cls(owner, data[salt_end + 1 : hash_end], data[1], int.from_bytes(data[2:4]), data[5:salt_end], type_bits(data[hash_end:]))

    def covers(self, found: bytes) -> bool:
        """Whether a hash lies strictly between this and the following."""
        return self.owner < found < self.following if self.owner < self.following else found > self.owner or found < self.following


@lru_cache(maxsize=1 << 16)
def hashed(name: bytes, salt: bytes, iterations: int) -> bytes:
    """The hash of a name (RFC 5155 5)."""
    digest = hashlib.sha1(name + salt).digest()
    for _ in range(iterations):
        digest = hashlib.sha1(digest + salt).digest()
    return digest


@dataclass(frozen=True)
class Nsec3Denial:
    """RFC 5155 7.2: all records of an answer have the same parameters; those with others prove nothing."""

    apex: bytes
    links: list[Link3]

    def hash(self, name: bytes) -> bytes:
        return hashed(name, self.links[0].salt, self.links[0].iterations)

    @cached_property
    def alike(self) -> list[Link3]:
        return [link for link in self.links if (link.salt, link.iterations) == (self.links[0].salt, self.links[0].iterations)]

    @cached_property
    def by_owner(self) -> dict[bytes, Link3]:
        return {link.owner: link for link in self.alike}

    def at(self, name: bytes) -> Link3 | None:
        return self.by_owner.get(self.hash(name))

    def cover(self, name: bytes) -> Link3 | None:
        found = self.hash(name)
        return next((link for link in self.alike if link.covers(found)), None)

    def encloser(self, name: bytes) -> tuple[bytes, Link3] | None:
        """The closest encloser and the record that covers the next closer name (RFC 5155 8.3), if both are proved."""
        above = [a for a in ancestors(name) if is_below(a, self.apex)]
        for next_closer, candidate in pairwise(above):
            if link := self.at(candidate):
                # RFC 5155 8.3: the encloser must not be a delegation or a DNAME, whose names below are not the zone's.
                if DNAME in link.types or (NS in link.types and SOA not in link.types):
                    return None
                cover = self.cover(next_closer)
                return (candidate, cover) if cover else None
        return None

    def no_name(self, name: bytes) -> bool:
        found = self.encloser(name)
        return found is not None and self.cover(wildcard(found[0])) is not None

    def leaves_out(self, encloser: bytes, name: bytes) -> bool:
        found = self.encloser(name)
        is_hidden = found is not None and len(found[0]) < len(encloser) and bool(found[1].flags & OPT_OUT)
        return is_hidden and found is not None and self.at(wildcard(found[0])) is not None

    def no_data(self, name: bytes, qtype: int) -> bool:
        if link := self.at(name):
            return lacks(link.types, qtype, name == self.apex)
        if not (found := self.encloser(name)):
            return False
        if star := self.at(wildcard(found[0])):
            return lacks(star.types, qtype)
        # RFC 5155 8.6 for DS; erratum 3441: a span that is opted out may hold an empty non-terminal over an insecure delegation.
        return bool(found[1].flags & OPT_OUT)

    def no_closer(self, name: bytes, encloser: bytes) -> bool:
        next_closer = from_labels(labels(name)[-len(labels(encloser)) - 1 :])
        return self.cover(next_closer) is not None

    def no_ds(self, cut: bytes) -> bool:
        if link := self.at(cut):
            return lacks_ds(link.types)
        found = self.encloser(cut)
        return found is not None and bool(found[1].flags & OPT_OUT)


def lacks(types: frozenset[int], qtype: int, at_apex: bool = False) -> bool:
    """A record at the name proves no data: neither the type nor an alias, and from the right side of a cut (RFC 6840 4.1, 4.3).

    DS at an apex is answered from there only if the parent is not served (RFC 4035 3.1.4.1).
    NSEC is no data at an alias of a zone with NSEC3: the question is not led on (RFC 4035 2.5).
    """
    if qtype in types or (CNAME in types and qtype != NSEC):
        return False
    is_cut = NS in types and SOA not in types
    return at_apex or SOA not in types if qtype == DS else not is_cut


def lacks_ds(types: frozenset[int]) -> bool:
    """A record at a delegation proves that it is unsigned (RFC 5155 8.9, RFC 6840 4.4)."""
    return NS in types and DS not in types and SOA not in types
