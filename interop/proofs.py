"""Validates answers from signed zones: every set signed, every negative answer, wildcard and unsigned delegation proved.

Signatures are checked with dnspython where the package cryptography is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import dns.dnssec
import dns.exception
import dns.name
import dns.node
import dns.rdataset
import dns.rdtypes.ANY.RRSIG
import dns.rrset

from denial import Denial, denial, wildcard
from faults import Fault, Rule
from message import (
    AA,
    CNAME,
    DNAME,
    DNSKEY,
    DS,
    NOERROR,
    NS,
    NSEC,
    NSEC3,
    NXDOMAIN,
    RRSIG,
    SOA,
    TC,
    Answer,
    Question,
    Record,
    rdata_from_wire,
    type_text,
)
from names import ancestors, from_labels, is_below, labels, name_text, read_name
from zoneset import ZoneSet, covered

try:
    import cryptography  # noqa: F401  (dnspython uses it)

    CAN_VERIFY = True
except ImportError:
    CAN_VERIFY = False

Key = tuple[bytes, int]


def label_count(name: bytes) -> int:
    """The labels a signature counts: without root and asterisk (RFC 4034 3.1.3)."""
    parts = labels(name)
    return len(parts) - (parts[:1] == [b"*"])


def signer(signature: Record) -> bytes:
    """The zone that made a signature (RFC 4034 3.1.7)."""
    return read_name(signature.rdata, 18, {})[0]


def signed_name(signature: Record) -> bytes:
    """The name that a signature is over: where it counts fewer labels, that of the wildcard (RFC 4035 5.3.2).

    dnspython makes it so itself, but not of a name that begins with an asterisk.
    """
    is_counted = signature.rdata[3] >= label_count(signature.owner)
    return signature.owner if is_counted else wildcard(counted(signature.owner, signature))


def counted(name: bytes, signature: Record) -> bytes:
    """The last labels of a name, as many as a signature counts."""
    count = signature.rdata[3]
    return from_labels(labels(name)[-count:] if count else [])


@dataclass
class Validator:
    """Judges answers of a set of zones; remembers the signatures it has verified."""

    zones: ZoneSet
    verified: dict[tuple[frozenset[Record], Record], bool] = field(default_factory=dict)

    def faults(self, question: Question, message: Answer) -> list[Fault]:
        """What keeps a validator from accepting the answer; empty when it would, or when there is nothing to validate."""
        if not question.dnssec or question.qtype == RRSIG or message.has(TC) or message.rcode not in (NOERROR, NXDOMAIN):
            return []
        return [*self.signature_faults(message), *self.walk_faults(question, message)]

    # --- signatures

    def signature_faults(self, message: Answer) -> Iterator[Fault]:
        synthesized = {r.owner for r in message.answer if r.rtype == CNAME and dname_for(r.owner, message)}
        for section in (message.answer, message.authority):
            sets, signatures = grouped(section)
            for (owner, rtype), records in sets.items():
                found = signatures.get((owner, rtype), [])
                if found:
                    yield from self.bad_signatures(frozenset(records), found)
                elif self.must_be_signed(owner, rtype) and not (rtype == CNAME and owner in synthesized):
                    yield Fault(Rule.UNSIGNED, f"{name_text(owner)} {type_text(rtype)}")
            for owner, rtype in signatures.keys() - sets.keys():
                yield Fault(Rule.WITHOUT_SET, f"{name_text(owner)} {type_text(rtype)}")
        sets, signatures = grouped(message.additional)
        for key in sets.keys() & signatures.keys():
            yield from self.bad_signatures(frozenset(sets[key]), signatures[key])

    def must_be_signed(self, owner: bytes, rtype: int) -> bool:
        """RFC 4035 2.2: authoritative sets, not the NS of a delegation and what is below."""
        if rtype in (NSEC, NSEC3):
            return True
        zone = self.zones.zone_of(owner, DS if rtype == NS else rtype)
        if zone is None or not zone.is_signed:
            return False
        cut = zone.cut_above(owner)
        return cut is None or (cut == owner and rtype == DS)

    def bad_signatures(self, records: frozenset[Record], signatures: list[Record]) -> Iterator[Fault]:
        for signature in signatures:
            key = records, signature
            if key not in self.verified:
                self.verified[key] = self.verify(records, signature)
            if not self.verified[key]:
                one = next(iter(records))
                yield Fault(Rule.INVALID, f"{name_text(one.owner)} {type_text(one.rtype)}")

    def verify(self, records: frozenset[Record], signature: Record) -> bool:
        zone = self.zones.zones.get(signer(signature))
        if zone is None:
            return False
        if not CAN_VERIFY:
            return True
        rrsig = rdata_from_wire(RRSIG, signature.rdata)
        assert isinstance(rrsig, dns.rdtypes.ANY.RRSIG.RRSIG)
        owner = dns.name.from_wire(signed_name(signature), 0)[0]
        keys: dict[dns.name.Name, dns.node.Node | dns.rdataset.Rdataset] = {rrsig.signer: rdataset(zone.set_of(zone.apex, DNSKEY))}
        try:
            # Reading fails, too, where a server has changed what was signed: NSD 4.15 sends APL with trailing zero octets.
            rrset = dns.rrset.from_rdata_list(owner, rrsig.original_ttl, list(rdataset(records)))
            dns.dnssec.validate_rrsig(rrset, rrsig, keys, now=float(rrsig.inception))
        except dns.exception.DNSException:
            return False
        return True

    # --- the way of the question through its aliases

    def walk_faults(self, question: Question, message: Answer) -> Iterator[Fault]:
        sets, signatures = grouped(message.answer)
        name, seen = question.name.lower(), set[bytes]()
        while name not in seen:
            seen.add(name)
            for rtype in (question.qtype, CNAME):
                if (name, rtype) in sets:
                    yield from self.wildcard_faults(name, signatures.get((name, rtype), []), message)
                    break
            else:
                if question.qtype != 255 or not any(owner == name for owner, _ in sets):
                    yield from self.end_faults(name, question, message)
                return
            if (name, question.qtype) in sets:
                return
            name = next(iter(sets[name, CNAME])).rdata

    def wildcard_faults(self, name: bytes, signatures: list[Record], message: Answer) -> Iterator[Fault]:
        """RFC 4035 3.1.3.3, RFC 5155 7.2.6: an answer made from a wildcard proves that there is no closer match."""
        for signature in signatures[:1]:
            if signature.rdata[3] < label_count(name):
                if not self.denial(message, signer(signature)).no_closer(name, counted(name, signature)):
                    yield Fault(Rule.WILDCARD, name_text(name))

    def end_faults(self, name: bytes, question: Question, message: Answer) -> Iterator[Fault]:
        """The last name has no answer here: a negative answer or a referral, each with its proof."""
        soa = next((r.owner for r in message.authority if r.rtype == SOA), None)
        cut = next((r.owner for r in message.authority if r.rtype == NS and is_below(name, r.owner)), None)
        if soa is not None:
            yield from self.negative_faults(name, question.qtype, soa, message)
        elif cut is not None and not message.has(AA):
            yield from self.referral_faults(cut, message)

    def negative_faults(self, name: bytes, qtype: int, apex: bytes, message: Answer) -> Iterator[Fault]:
        zone = self.zones.zones.get(apex)
        if zone is None or not is_below(name, apex):
            yield Fault(Rule.FOREIGN_SOA, f"{name_text(apex)} for {name_text(name)}")
        elif zone.is_signed:
            proof = self.denial(message, apex)
            encloser = next(above for above in ancestors(name) if above in zone.names or above == apex)
            if message.rcode == NXDOMAIN and not (proof.no_name(name) or proof.leaves_out(encloser, name)):
                yield Fault(Rule.NO_NAME, name_text(name))
            if message.rcode == NOERROR and not proof.no_data(name, qtype):
                yield Fault(Rule.NO_DATA, f"{name_text(name)} {type_text(qtype)}")

    def referral_faults(self, cut: bytes, message: Answer) -> Iterator[Fault]:
        """RFC 4035 3.1.4: a referral carries DS, or the proof that there is none."""
        zone = self.zones.zone_of(cut, DS)
        has_ds = any(r.owner == cut and r.rtype == DS for r in message.authority)
        if zone and zone.is_signed and cut != zone.apex and not has_ds and not self.denial(message, zone.apex).no_ds(cut):
            yield Fault(Rule.NO_DS, name_text(cut))

    def denial(self, message: Answer, apex: bytes) -> Denial:
        """The denial records that this zone signed."""
        signed = {(r.owner, covered(r)) for r in message.authority if r.rtype == RRSIG and signer(r) == apex}
        return denial((r for r in message.authority if (r.owner, r.rtype) in signed), apex)


def grouped(records: frozenset[Record]) -> tuple[dict[Key, list[Record]], dict[Key, list[Record]]]:
    """The sets and, under the types they cover, the signatures."""
    sets: dict[Key, list[Record]] = defaultdict(list)
    signatures: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        (signatures if record.rtype == RRSIG else sets)[record.owner, covered(record)].append(record)
    return sets, signatures


def dname_for(name: bytes, message: Answer) -> bool:
    """Whether a DNAME in the answer stands above the name."""
    return any(r.rtype == DNAME and r.owner != name and is_below(name, r.owner) for r in message.answer)


def rdataset(records: frozenset[Record]) -> dns.rdataset.Rdataset:
    """The records' data as dnspython has them."""
    return dns.rdataset.from_rdata_list(0, [rdata_from_wire(r.rtype, r.rdata) for r in records])
