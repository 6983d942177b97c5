"""What the NSEC and NSEC3 records of a response prove to a validator (RFC 4035 5.4, RFC 5155 8, RFC 6840 4)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Protocol, TypeVar

from dns_numbers import CNAME, DNAME, DS, NS, NSEC, NSEC3, SOA
from message import Record
from names import ancestors, from_labels, is_at_or_below, labels, read_name

OPT_OUT = 1
# Canonically ordered labels of an NSEC owner, or an NSEC3 hash.
Ordered = TypeVar("Ordered", list[bytes], bytes)


class Denial(Protocol):
    """The NSEC or NSEC3 records of one response from one zone. Each method says whether they prove what its docstring states."""

    def proves_nxdomain(self, name: bytes) -> bool:
        """Neither the name nor a wildcard that matches it exists."""

    def proves_nodata(self, name: bytes, qtype: int) -> bool:
        """The name, or the wildcard that matches it, has neither the type nor a CNAME."""

    def proves_no_closer_match(self, name: bytes, encloser: bytes) -> bool:
        """No name exists between `name` and the wildcard at `encloser` that matches it."""

    def proves_no_ds(self, cut: bytes) -> bool:
        """The delegation has no DS."""

    def opt_out_hides_encloser(self, encloser: bytes, name: bytes) -> bool:
        """Opt-out hides the closest encloser, and a wildcard at the next one makes NXDOMAIN unprovable (erratum 3441)."""


def denial(records: Iterable[Record], apex: bytes) -> Denial:
    """A denial from the NSEC3 records, or from the NSEC records if there are none."""
    records = [r for r in records if is_at_or_below(r.owner, apex)]
    if hashed := [Nsec3Record.of(r) for r in records if r.rtype == NSEC3]:
        return Nsec3Denial(apex, hashed)
    return NsecDenial(apex, [NsecRecord.of(r) for r in records if r.rtype == NSEC])


def canonical_order(name: bytes) -> list[bytes]:
    """Sort key for canonical order (RFC 4034 6.1)."""
    return labels(name)[::-1]


def between(low: Ordered, high: Ordered, middle: Ordered) -> bool:
    """Whether `middle` is strictly between `low` and `high`; the last record of a chain wraps around."""
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


def common_ancestor(a: bytes, b: bytes) -> bytes:
    """The longest common suffix of two names."""
    return next(name for name in ancestors(a) if is_at_or_below(b, name))


@dataclass(frozen=True)
class NsecRecord:
    """One NSEC record."""

    owner: bytes
    next_owner: bytes
    types: frozenset[int]

    @classmethod
    def of(cls, record: Record) -> NsecRecord:
        next_owner, at = read_name(record.rdata, 0, {})
        return cls(record.owner, next_owner.lower(), type_bits(record.rdata[at:]))

    def covers(self, name: bytes) -> bool:
        """Whether the record proves that `name` does not exist; at a delegation or DNAME it does not cover names below it (RFC 6840 4.1)."""
        if is_at_or_below(name, self.owner) and (DNAME in self.types or (NS in self.types and SOA not in self.types)):
            return False
        return between(*self.span, canonical_order(name))

    @cached_property
    def span(self) -> tuple[list[bytes], list[bytes]]:
        return canonical_order(self.owner), canonical_order(self.next_owner)


@dataclass(frozen=True)
class NsecDenial:
    apex: bytes
    records: list[NsecRecord]

    def matching(self, name: bytes) -> NsecRecord | None:
        return next((record for record in self.records if record.owner == name), None)

    def covering(self, name: bytes) -> NsecRecord | None:
        return next((record for record in self.records if record.covers(name)), None)

    def closest_encloser(self, name: bytes, record: NsecRecord) -> bytes:
        """The closest encloser that a covering record implies: the longest suffix of `name` shared with its owner or next name."""
        return max(common_ancestor(name, record.owner), common_ancestor(name, record.next_owner), key=len)

    def proves_nxdomain(self, name: bytes) -> bool:
        return (encloser := self.encloser_if_absent(name)) is not None and self.encloser_if_absent(wildcard(encloser)) is not None

    def encloser_if_absent(self, name: bytes) -> bytes | None:
        """The closest encloser of a name that is proved not to exist; an empty non-terminal exists."""
        record = self.covering(name)
        encloser = self.closest_encloser(name, record) if record else name
        return None if encloser == name else encloser

    def proves_nodata(self, name: bytes, qtype: int) -> bool:
        if self.nodata_at(name, qtype):
            return True
        record = self.covering(name)
        return record is not None and self.nodata_at(wildcard(self.closest_encloser(name, record)), qtype)

    def nodata_at(self, name: bytes, qtype: int) -> bool:
        """The name has no such type, or is an empty non-terminal because the next name is below it."""
        if record := self.matching(name):
            return denies_type(record.types, qtype, name == self.apex)
        return any(is_at_or_below(record.next_owner, name) for record in self.records if record.covers(name))

    def proves_no_closer_match(self, name: bytes, encloser: bytes) -> bool:
        found = self.encloser_if_absent(name)
        return found is not None and len(found) <= len(encloser)

    def proves_no_ds(self, cut: bytes) -> bool:
        record = self.matching(cut)
        return record is not None and denies_ds(record.types)

    def opt_out_hides_encloser(self, encloser: bytes, name: bytes) -> bool:
        return False


@dataclass(frozen=True)
class Nsec3Record:
    """One NSEC3 record; hashes are raw octets."""

    owner: bytes
    next_hash: bytes
    flags: int
    iterations: int
    salt: bytes
    types: frozenset[int]

    @classmethod
    def of(cls, record: Record) -> Nsec3Record:
        data = record.rdata
        salt_end = 5 + data[4]
        hash_end = salt_end + 1 + data[salt_end]
        owner = base64.b32hexdecode(labels(record.owner)[0].upper())
        return cls(owner, data[salt_end + 1 : hash_end], data[1], int.from_bytes(data[2:4]), data[5:salt_end], type_bits(data[hash_end:]))

    def covers(self, hashed: bytes) -> bool:
        """Whether a hash is strictly between this owner and the next one; the last record wraps around."""
        return between(self.owner, self.next_hash, hashed)


@lru_cache(maxsize=1 << 16)
def nsec3_hash(name: bytes, salt: bytes, iterations: int) -> bytes:
    """The NSEC3 hash of a name (RFC 5155 5)."""
    digest = hashlib.sha1(name + salt).digest()
    for _ in range(iterations):
        digest = hashlib.sha1(digest + salt).digest()
    return digest


@dataclass(frozen=True)
class Nsec3Denial:
    """RFC 5155 7.2: the records of a response share their parameters; those with other parameters are ignored."""

    apex: bytes
    records: list[Nsec3Record]

    def hash_of(self, name: bytes) -> bytes:
        return nsec3_hash(name, self.records[0].salt, self.records[0].iterations)

    @cached_property
    def usable(self) -> list[Nsec3Record]:
        return [record for record in self.records if (record.salt, record.iterations) == (self.records[0].salt, self.records[0].iterations)]

    @cached_property
    def by_owner(self) -> dict[bytes, Nsec3Record]:
        return {record.owner: record for record in self.usable}

    def matching(self, name: bytes) -> Nsec3Record | None:
        return self.by_owner.get(self.hash_of(name))

    def covering(self, name: bytes) -> Nsec3Record | None:
        found = self.hash_of(name)
        return next((record for record in self.usable if record.covers(found)), None)

    def closest_encloser(self, name: bytes) -> tuple[bytes, Nsec3Record] | None:
        """The closest encloser and the record that covers the next closer name, if both are proved (RFC 5155 8.3)."""
        above = [a for a in ancestors(name) if is_at_or_below(a, self.apex)]
        for next_closer, candidate in pairwise(above):
            if record := self.matching(candidate):
                # RFC 5155 8.3: the closest encloser must not be a delegation or have a DNAME.
                if DNAME in record.types or (NS in record.types and SOA not in record.types):
                    return None
                covering = self.covering(next_closer)
                return (candidate, covering) if covering else None
        return None

    def proves_nxdomain(self, name: bytes) -> bool:
        found = self.closest_encloser(name)
        return found is not None and self.covering(wildcard(found[0])) is not None

    def opt_out_hides_encloser(self, encloser: bytes, name: bytes) -> bool:
        found = self.closest_encloser(name)
        is_hidden = found is not None and len(found[0]) < len(encloser) and bool(found[1].flags & OPT_OUT)
        return is_hidden and found is not None and self.matching(wildcard(found[0])) is not None

    def proves_nodata(self, name: bytes, qtype: int) -> bool:
        if record := self.matching(name):
            return denies_type(record.types, qtype, name == self.apex)
        if not (found := self.closest_encloser(name)):
            return False
        if star := self.matching(wildcard(found[0])):
            return denies_type(star.types, qtype)
        # RFC 5155 8.6 for DS; erratum 3441: an opt-out span can contain an empty non-terminal above an insecure delegation.
        return bool(found[1].flags & OPT_OUT)

    def proves_no_closer_match(self, name: bytes, encloser: bytes) -> bool:
        next_closer = from_labels(labels(name)[-len(labels(encloser)) - 1 :])
        return self.covering(next_closer) is not None

    def proves_no_ds(self, cut: bytes) -> bool:
        if record := self.matching(cut):
            return denies_ds(record.types)
        found = self.closest_encloser(cut)
        return found is not None and bool(found[1].flags & OPT_OUT)


def denies_type(types: frozenset[int], qtype: int, at_apex: bool = False) -> bool:
    """A matching record proves NODATA: no such type, no CNAME, and from the authoritative side of a zone cut (RFC 6840 4.1, 4.3).

    The apex answers for its own DS only if the parent is not served (RFC 4035 3.1.4.1).
    QTYPE NSEC does not follow a CNAME, so it is NODATA there in a zone with NSEC3 (RFC 4035 2.5).
    """
    if qtype in types or (CNAME in types and qtype != NSEC):
        return False
    is_cut = NS in types and SOA not in types
    return at_apex or SOA not in types if qtype == DS else not is_cut


def denies_ds(types: frozenset[int]) -> bool:
    """A matching record proves an unsigned delegation (RFC 5155 8.9, RFC 6840 4.4)."""
    return NS in types and DS not in types and SOA not in types
