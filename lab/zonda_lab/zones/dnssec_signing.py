"""Signs generated zones with DNSSEC: Ed25519, NSEC or NSEC3 with opt-out.

Deterministic, because keys come from a seed and times are fixed. Zones must have no empty non-terminals, which NSEC3
would need in its chain; those of `zonegen` have none.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import dns.dnssec
import dns.name
import dns.rdatatype
import dns.rrset
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

INCEPTION, EXPIRATION = 1577836800, 2145916800  # 2020-01-01 to 2038-01-01


Role = Literal["apex", "own", "cut", "glue"]


class RRset(NamedTuple):
    """An RRset as text; `role` controls signing (cut: NS of a delegation, glue: below a delegation)."""

    owner: str
    ttl: int
    type: str
    rdatas: tuple[str, ...]
    role: Role


class Signer:
    """A key and the zone it signs."""

    def __init__(self, apex: str, seed: int) -> None:
        self.apex = dns.name.from_text(apex)
        secret = hashlib.sha256(f"zonda-lab {seed} {apex}".encode()).digest()
        self.private = Ed25519PrivateKey.from_private_bytes(secret)
        self.key = dns.dnssec.make_dnskey(self.private.public_key(), "ED25519", 257)  # flags: Zone Key and SEP
        self.dnskey = self.key.to_text(chunksize=0)

    def rrsig(self, rrset: RRset) -> RRset:
        """The signature of an RRset, RFC 4034 3.1."""
        records = dns.rrset.from_text_list(rrset.owner, rrset.ttl, "IN", rrset.type, rrset.rdatas)
        made = dns.dnssec.sign(records, self.private, self.apex, self.key, INCEPTION, EXPIRATION)
        return rrset._replace(type="RRSIG", rdatas=(made.to_text(chunksize=0),))


def signed(rrsets: Iterable[RRset], apex: str, denial: str, seed: int) -> Iterator[RRset]:
    """`rrsets` (the SOA first) with DNSKEY, RRSIGs and the NSEC or NSEC3 chain."""
    signer = Signer(apex, seed)
    types: dict[str, set[str]] = {}
    negative_ttl = 0
    for rrset in rrsets:
        own = [rrset]
        if rrset.type == "SOA":
            negative_ttl = min(rrset.ttl, int(rrset.rdatas[0].split()[-1]))  # RFC 9077 3: TTL of NSEC and NSEC3
            own.append(rrset._replace(type="DNSKEY", rdatas=(signer.dnskey,)))
            if denial == "nsec3":
                own.append(rrset._replace(type="NSEC3PARAM", ttl=0, rdatas=("1 0 0 -",)))
        for each in own:
            yield each
            if each.role != "glue":
                types.setdefault(each.owner, set()).add(each.type)
            if each.role in ("apex", "own"):
                yield signer.rrsig(each)
    chain = nsec_chain if denial == "nsec" else nsec3_chain
    for rrset in chain(types, apex, negative_ttl):
        yield rrset
        yield signer.rrsig(rrset)


def nsec_chain(types: dict[str, set[str]], apex: str, ttl: int) -> Iterator[RRset]:
    """RFC 4034 4: every owner of authoritative data or a delegation, in canonical order, the last to the apex."""
    owners = sorted(types, key=canonical)
    for owner, following in zip(owners, [*owners[1:], apex], strict=True):
        listed = types[owner] | {"NSEC", "RRSIG"}
        yield RRset(owner, ttl, "NSEC", (f"{following} {type_list(listed)}",), "own")


def nsec3_chain(types: dict[str, set[str]], apex: str, ttl: int) -> Iterator[RRset]:
    """RFC 5155 7.1 with opt-out: delegations without DS are left out; no salt, no iterations (RFC 9276)."""
    hashed = {dns.dnssec.nsec3_hash(owner, None, 0, 1): listed for owner, listed in types.items() if listed != {"NS"}}
    order = sorted(hashed)
    for digest, following in zip(order, [*order[1:], order[0]], strict=True):
        listed = hashed[digest] | ({"RRSIG"} if hashed[digest] != {"NS"} else set())
        owner = f"{digest}." if apex == "." else f"{digest}.{apex}"
        yield RRset(owner, ttl, "NSEC3", (f"1 1 0 - {following} {type_list(listed)}",), "own")


def canonical(owner: str) -> list[str]:
    """RFC 4034 6.1: labels from the root down; the generated labels are plain ASCII."""
    return owner.lower().rstrip(".").split(".")[::-1] if owner != "." else []


def type_list(types: set[str]) -> str:
    """Types in the order of their numbers."""
    return " ".join(sorted(types, key=dns.rdatatype.from_text))
