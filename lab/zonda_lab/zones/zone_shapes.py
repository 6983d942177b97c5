"""Five shapes of generated zones, from fixed seeds."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from zonda_lab.experiments.definition import ZoneSpec
from zonda_lab.zones.dnssec_signing import RRset


class ZoneSource(ABC):
    """The text of zones."""

    def __init__(self, spec: ZoneSpec) -> None:
        self.spec = spec

    @property
    def zones(self) -> int:
        """The number of zones."""
        return self.spec.zones

    def apex(self, index: int) -> str:
        """The name of the zone number `index`."""
        return f"zone{index}.test."

    @abstractmethod
    def rrsets(self, index: int) -> Iterator[RRset]:
        """All RRsets of a zone, the SOA first."""


class Shape(ZoneSource):
    """A family of generated zones, and the usual queries for them."""

    types: ClassVar[dict[str, float]] = {"A": 1.0}  # shares of query types
    delegates: ClassVar[bool] = False  # queries are for names below zone cuts

    def soa(self, index: int, names: str, numbers: str, ttl: int = 3600) -> RRset:
        """The SOA, from its two names, and its numbers after the serial."""
        return RRset(self.apex(index), ttl, "SOA", (f"{names} 1000000001 {numbers}",), "apex")

    def head(self, index: int, negative_ttl: int = 300) -> Iterator[RRset]:
        """SOA, one NS and its address."""
        apex = self.apex(index)
        server = under("ns1", apex)
        yield self.soa(index, f"{server} hostmaster.{apex}", f"3600 900 604800 {negative_ttl}")
        yield RRset(apex, 3600, "NS", (server,), "apex")
        yield RRset(server, 3600, "A", ("192.0.2.1",), "own")


class Root(Shape):
    """Like the root: delegations with two to six in-bailiwick name servers, each with IPv4 and IPv6 glue."""

    delegates = True

    def apex(self, index: int) -> str:  # noqa: ARG002
        return "."

    def label(self, rank: int) -> str:
        """The name of a delegation; number 0 is net, which contains the root server names."""
        return label(self.spec.seed, rank, 2, 9) if rank else "net"

    def rrsets(self, index: int) -> Iterator[RRset]:
        """Root server addresses are glue below net."""
        letters = "abcdefghijklm"
        yield self.soa(index, "a.root-servers.net. nstld.example.", "1800 900 604800 86400", 86400)
        yield RRset(self.apex(index), 518400, "NS", tuple(f"{c}.root-servers.net." for c in letters), "apex")
        for number, letter in enumerate(letters, 1):
            yield RRset(f"{letter}.root-servers.net.", 518400, "A", (f"198.51.100.{number}",), "glue")
        for rank in range(self.spec.records):
            yield from self._delegation(rank)

    def _delegation(self, rank: int) -> Iterator[RRset]:
        owner, noise = f"{self.label(rank)}.", mix(self.spec.seed, rank, 7)
        servers = tuple(f"ns{k}.nic.{owner}" for k in range(1, 3 + noise % 5))
        yield RRset(owner, 172800, "NS", servers, "cut")
        if noise % 100 < 90 and self.spec.signed != "no":  # nine in ten TLDs are signed
            yield RRset(owner, 86400, "DS", (ds_text(noise),), "own")
        for k, server in enumerate(servers, 1):
            yield RRset(server, 172800, "A", (f"10.{rank >> 8 & 255}.{rank & 255}.{k}",), "glue")
            yield RRset(server, 172800, "AAAA", (f"2001:db8:{rank:x}::{k}",), "glue")


class Tld(Shape):
    """Like .gov on 2026-08-22: 2.66 name servers per delegation, 12.5 % with DS, few with glue."""

    delegates = True

    SERVERS = ((2, 0.7067), (4, 0.1593), (3, 0.0579), (6, 0.0463), (5, 0.0241), (8, 0.0041), (1, 0.0016))
    OWN_GLUE, OWN_SET, SIGNED = 0.023, 0.25, 0.125  # shares of delegations
    POOL = 0.075  # shared name-server sets per delegation

    def apex(self, index: int) -> str:
        """`tld.`, then `tld1.` and so on."""
        return f"tld{index or ''}."

    def label(self, rank: int) -> str:
        """The name of a delegation."""
        return label(self.spec.seed, rank, 4, 18)

    def rrsets(self, index: int) -> Iterator[RRset]:
        yield from self.head(index, 900)
        for rank in range(self.spec.records):
            yield from self._delegation(under(self.label(rank), self.apex(index)), rank)

    def _delegation(self, owner: str, rank: int) -> Iterator[RRset]:
        draw = [mix(self.spec.seed, rank, n) / 2**64 for n in range(4)]
        count = chosen(self.SERVERS, draw[0])
        own_glue = draw[1] < self.OWN_GLUE
        yield RRset(owner, 10800, "NS", tuple(self._servers(owner, rank, count, draw)), "cut")
        if draw[3] < self.SIGNED and self.spec.signed != "no":
            yield RRset(owner, 3600, "DS", (ds_text(mix(self.spec.seed, rank, 9)),), "own")
        for k in range(1, count + 1) if own_glue else ():
            address = f"10.{rank >> 16 & 63 | k << 6 & 192}.{rank >> 8 & 255}.{rank & 255}"
            yield RRset(f"ns{k}.{owner}", 3600, "A", (address,), "glue")

    def _servers(self, owner: str, rank: int, count: int, draw: list[float]) -> Iterator[str]:
        pool = max(1, int(self.spec.records * self.POOL))
        if draw[1] < self.OWN_GLUE:
            domain = owner
        elif draw[1] < self.OWN_SET:
            domain = f"{label(self.spec.seed + 1, rank, 5, 14)}.com."
        else:  # log-uniform rank, which matches the providers of .gov (Zipf's law)
            domain = f"{label(self.spec.seed + 2, int(pool ** draw[2]), 5, 14)}.net."
        return (f"ns{k}.{domain}" for k in range(1, count + 1))


class Flat(Shape):
    """One A record per name."""

    def rrsets(self, index: int) -> Iterator[RRset]:
        apex = self.apex(index)
        yield from self.head(index)
        for i in range(self.spec.records):
            yield RRset(f"host{i}.{apex}", 3600, "A", (f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}",), "own")


class Mixed(Shape):
    """The query types of the Windows measurements: A 60 %, CNAME 20, SRV 10, MX 4, TXT 3, and NS 3 at the apex."""

    types: ClassVar[dict[str, float]] = {"A": 0.60, "CNAME": 0.20, "SRV": 0.10, "MX": 0.04, "TXT": 0.03, "NS": 0.03}
    LABELS = (("A", "host", 62), ("CNAME", "alias", 82), ("SRV", "srv", 92), ("MX", "mail", 96), ("TXT", "text", 100))

    def rrsets(self, index: int) -> Iterator[RRset]:
        """One RRset per name; types repeat every hundred names."""
        apex = self.apex(index)
        yield from self.head(index)
        for i in range(self.spec.records):
            qtype, prefix = self._type(i)
            yield RRset(f"{prefix}{i}.{apex}", 3600, qtype, (self._rdata(qtype, i, apex),), "own")

    def _type(self, i: int) -> tuple[str, str]:
        return next((qtype, prefix) for qtype, prefix, below in self.LABELS if i % 100 < below)

    def _rdata(self, qtype: str, i: int, apex: str) -> str:
        host = f"host{i - i % 100}.{apex}"
        texts = {"A": f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}", "CNAME": host, "SRV": f"0 5 5060 {host}"}
        return texts.get(qtype) or {"MX": f"10 {host}", "TXT": f'"v=spf1 ip4:192.0.2.{i % 256} -all"'}[qtype]


class Tiny(Shape):
    """The smallest zone: SOA and one out-of-bailiwick NS."""

    types: ClassVar[dict[str, float]] = {"SOA": 1.0}

    def rrsets(self, index: int) -> Iterator[RRset]:
        yield self.soa(index, "ns.example. hostmaster.example.", "3600 900 604800 300")
        yield RRset(self.apex(index), 3600, "NS", ("ns.example.",), "apex")


SHAPES: dict[str, type[Shape]] = {"root": Root, "tld": Tld, "flat": Flat, "mixed": Mixed, "tiny": Tiny}


def under(name: str, apex: str) -> str:
    """The absolute name of `name` in the zone `apex`."""
    return f"{name}." if apex == "." else f"{name}.{apex}"


def mix(seed: int, number: int, salt: int = 0) -> int:
    """A 64-bit hash of the arguments (finaliser of SplitMix64), used as reproducible random draw."""
    z = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + salt * 0xD1342543DE82EF95 + 1) & 0xFFFFFFFFFFFFFFFF
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    z = (z ^ z >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return z ^ z >> 31


def label(seed: int, number: int, shortest: int, longest: int) -> str:
    """A label of random letters that ends with its number, so labels are unique and unordered."""
    noise, tail = mix(seed, number, 5), np.base_repr(number, 36).lower()
    letters = []
    for _ in range(max(1, shortest + noise % (longest - shortest + 1) - len(tail))):
        noise, letter = divmod(noise // 3, 26)
        letters.append("abcdefghijklmnopqrstuvwxyz"[letter])
        noise = noise or mix(seed, number, 6)
    return "".join(letters) + tail


def chosen(shares: tuple[tuple[int, float], ...], draw: float) -> int:
    """The value selected by `draw` (in 0..1) according to the shares."""
    for value, share in shares:
        draw -= share
        if draw < 0:
            return value
    return shares[0][0]


def ds_text(noise: int) -> str:
    """DS RDATA of algorithm 13 with an arbitrary SHA-256 digest."""
    return f"{noise & 0xFFFF} 13 2 {hashlib.sha256(noise.to_bytes(8, 'big')).hexdigest().upper()}"
