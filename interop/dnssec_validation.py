"""Validates responses from signed zones: signatures, and the proofs for negative, wildcard and unsigned-delegation responses."""

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

from answer_rules import Rule, Violation
from denial_of_existence import Denial, denial, wildcard
from dns_numbers import AA, CNAME, DNAME, DNSKEY, DS, NOERROR, NS, NSEC, NSEC3, NXDOMAIN, RRSIG, SOA, TC
from message import Query, Record, Response, rdata_from_wire, type_text
from names import ancestors, from_labels, is_at_or_below, labels, name_text, read_name
from zone_set import ZoneSet, covered_type

RrsetKey = tuple[bytes, int]


def label_count(name: bytes) -> int:
    """The value of the RRSIG Labels field for a name: without root and leading asterisk (RFC 4034 3.1.3)."""
    parts = labels(name)
    return len(parts) - (parts[:1] == [b"*"])


def signer(signature: Record) -> bytes:
    """The Signer's Name of an RRSIG (RFC 4034 3.1.7)."""
    return read_name(signature.rdata, 18, {})[0]


def signed_owner(signature: Record) -> bytes:
    """The owner name that an RRSIG signs: the wildcard if its Labels field is lower than that of the owner (RFC 4035 5.3.2).

    dnspython derives it, too, but not if the owner begins with an asterisk.
    """
    is_expanded = signature.rdata[3] < label_count(signature.owner)
    return wildcard(wildcard_encloser(signature.owner, signature)) if is_expanded else signature.owner


def wildcard_encloser(name: bytes, signature: Record) -> bytes:
    """The suffix of `name` with as many labels as the RRSIG Labels field."""
    count = signature.rdata[3]
    return from_labels(labels(name)[-count:] if count else [])


@dataclass
class Validator:
    """Validates responses from a set of zones; caches verified signatures."""

    zones: ZoneSet
    verified: dict[tuple[frozenset[Record], Record], bool] = field(default_factory=dict)

    def violations(self, query: Query, response: Response) -> list[Violation]:
        """The reasons for a validator to reject the response; empty if it is valid or has nothing to validate."""
        if not query.dnssec or query.qtype == RRSIG or response.has(TC) or response.rcode not in (NOERROR, NXDOMAIN):
            return []
        return [*self.signature_violations(response), *self.chain_violations(query, response)]

    # --- signatures

    def signature_violations(self, response: Response) -> Iterator[Violation]:
        synthesized = {r.owner for r in response.answer if r.rtype == CNAME and has_dname_above(r.owner, response)}
        for section in (response.answer, response.authority):
            sets, signatures = grouped(section)
            for (owner, rtype), records in sets.items():
                found = signatures.get((owner, rtype), [])
                if found:
                    yield from self.bad_signatures(frozenset(records), found)
                elif self.must_be_signed(owner, rtype) and not (rtype == CNAME and owner in synthesized):
                    yield Violation(Rule.UNSIGNED_RRSET, f"{name_text(owner)} {type_text(rtype)}")
            for owner, rtype in signatures.keys() - sets.keys():
                yield Violation(Rule.RRSIG_WITHOUT_RRSET, f"{name_text(owner)} {type_text(rtype)}")
        sets, signatures = grouped(response.additional)
        for key in sets.keys() & signatures.keys():
            yield from self.bad_signatures(frozenset(sets[key]), signatures[key])

    def must_be_signed(self, owner: bytes, rtype: int) -> bool:
        """RFC 4035 2.2: authoritative RRsets are signed, not the NS RRset of a delegation or names below it."""
        if rtype in (NSEC, NSEC3):
            return True
        zone = self.zones.zone_of(owner, DS if rtype == NS else rtype)
        if zone is None or not zone.is_signed:
            return False
        cut = zone.cut_above(owner)
        return cut is None or (cut == owner and rtype == DS)

    def bad_signatures(self, records: frozenset[Record], signatures: list[Record]) -> Iterator[Violation]:
        for signature in signatures:
            key = records, signature
            if key not in self.verified:
                self.verified[key] = self.verify(records, signature)
            if not self.verified[key]:
                one = next(iter(records))
                yield Violation(Rule.BAD_SIGNATURE, f"{name_text(one.owner)} {type_text(one.rtype)}")

    def verify(self, records: frozenset[Record], signature: Record) -> bool:
        zone = self.zones.zones.get(signer(signature))
        if zone is None:
            return False
        rrsig = rdata_from_wire(RRSIG, signature.rdata)
        assert isinstance(rrsig, dns.rdtypes.ANY.RRSIG.RRSIG)
        owner = dns.name.from_wire(signed_owner(signature), 0)[0]
        keys: dict[dns.name.Name, dns.node.Node | dns.rdataset.Rdataset] = {rrsig.signer: rdataset(zone.rrset(zone.apex, DNSKEY))}
        try:
            # Parsing fails, too, if a server alters RDATA: NSD 4.15 sends APL with trailing zero octets.
            rrset = dns.rrset.from_rdata_list(owner, rrsig.original_ttl, list(rdataset(records)))
            dns.dnssec.validate_rrsig(rrset, rrsig, keys, now=float(rrsig.inception))
        except dns.exception.DNSException:
            return False
        return True

    # --- the alias chain

    def chain_violations(self, query: Query, response: Response) -> Iterator[Violation]:
        sets, signatures = grouped(response.answer)
        name, seen = query.name.lower(), set[bytes]()
        while name not in seen:
            seen.add(name)
            for rtype in (query.qtype, CNAME):
                if (name, rtype) in sets:
                    yield from self.wildcard_violations(name, signatures.get((name, rtype), []), response)
                    break
            else:
                if query.qtype != 255 or not any(owner == name for owner, _ in sets):
                    yield from self.chain_end_violations(name, query, response)
                return
            if (name, query.qtype) in sets:
                return
            name = next(iter(sets[name, CNAME])).rdata

    def wildcard_violations(self, name: bytes, signatures: list[Record], response: Response) -> Iterator[Violation]:
        """RFC 4035 3.1.3.3, RFC 5155 7.2.6: a wildcard answer includes a proof that there is no closer match."""
        for signature in signatures[:1]:
            if signature.rdata[3] < label_count(name):
                if not self.denial(response, signer(signature)).proves_no_closer_match(name, wildcard_encloser(name, signature)):
                    yield Violation(Rule.WILDCARD_UNPROVED, name_text(name))

    def chain_end_violations(self, name: bytes, query: Query, response: Response) -> Iterator[Violation]:
        """The last name of the chain has no answer: checks the proof of a negative response or a referral."""
        soa = next((r.owner for r in response.authority if r.rtype == SOA), None)
        cut = next((r.owner for r in response.authority if r.rtype == NS and is_at_or_below(name, r.owner)), None)
        if soa is not None:
            yield from self.negative_violations(name, query.qtype, soa, response)
        elif cut is not None and not response.has(AA):
            yield from self.referral_violations(cut, response)

    def negative_violations(self, name: bytes, qtype: int, apex: bytes, response: Response) -> Iterator[Violation]:
        zone = self.zones.zones.get(apex)
        if zone is None or not is_at_or_below(name, apex):
            yield Violation(Rule.WRONG_SOA, f"{name_text(apex)} for {name_text(name)}")
        elif zone.is_signed:
            proof = self.denial(response, apex)
            encloser = next(above for above in ancestors(name) if above in zone.names or above == apex)
            if response.rcode == NXDOMAIN and not (proof.proves_nxdomain(name) or proof.opt_out_hides_encloser(encloser, name)):
                yield Violation(Rule.NXDOMAIN_UNPROVED, name_text(name))
            if response.rcode == NOERROR and not proof.proves_nodata(name, qtype):
                yield Violation(Rule.NODATA_UNPROVED, f"{name_text(name)} {type_text(qtype)}")

    def referral_violations(self, cut: bytes, response: Response) -> Iterator[Violation]:
        """RFC 4035 3.1.4: a referral includes DS, or a proof of its absence."""
        zone = self.zones.zone_of(cut, DS)
        has_ds = any(r.owner == cut and r.rtype == DS for r in response.authority)
        if zone and zone.is_signed and cut != zone.apex and not has_ds and not self.denial(response, zone.apex).proves_no_ds(cut):
            yield Violation(Rule.NO_DS_UNPROVED, name_text(cut))

    def denial(self, response: Response, apex: bytes) -> Denial:
        """The NSEC or NSEC3 records signed by this zone."""
        signed = {(r.owner, covered_type(r)) for r in response.authority if r.rtype == RRSIG and signer(r) == apex}
        return denial((r for r in response.authority if (r.owner, r.rtype) in signed), apex)


def grouped(records: frozenset[Record]) -> tuple[dict[RrsetKey, list[Record]], dict[RrsetKey, list[Record]]]:
    """The RRsets, and the RRSIGs by owner and covered type."""
    sets: dict[RrsetKey, list[Record]] = defaultdict(list)
    signatures: dict[RrsetKey, list[Record]] = defaultdict(list)
    for record in records:
        (signatures if record.rtype == RRSIG else sets)[record.owner, covered_type(record)].append(record)
    return sets, signatures


def has_dname_above(name: bytes, response: Response) -> bool:
    """Whether the answer section has a DNAME above the name."""
    return any(r.rtype == DNAME and r.owner != name and is_at_or_below(name, r.owner) for r in response.answer)


def rdataset(records: frozenset[Record]) -> dns.rdataset.Rdataset:
    """The records' RDATA as a dnspython rdataset."""
    return dns.rdataset.from_rdata_list(0, [rdata_from_wire(r.rtype, r.rdata) for r in records])
