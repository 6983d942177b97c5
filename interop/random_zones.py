"""Generates random zones of few labels, so that cuts, aliases, wildcards and occluded names occur in many combinations."""

from __future__ import annotations

import random
from collections.abc import Iterator

LABELS = ("a", "b", "c", "D", "*", "ns", "zz")
NAMES = 30
SERIAL = 2026010101


def random_zone(seed: int, other_apexes: list[str]) -> str:
    """A zone file with relative names, deterministic for a seed; aliases may lead to `other_apexes`."""
    return "\n".join(ZoneMaker(random.Random(seed), other_apexes).lines()) + "\n"


class ZoneMaker:
    """Chooses the names of a zone, then the RRsets of each."""

    def __init__(self, rng: random.Random, other_apexes: list[str]) -> None:
        self.rng, self.other_apexes = rng, other_apexes
        self.names = sorted({self.name() for _ in range(NAMES)})

    def name(self) -> str:
        depth = self.rng.choices((1, 2, 3, 4), (4, 6, 3, 1))[0]
        return ".".join(self.rng.choice(LABELS) for _ in range(depth))

    def lines(self) -> Iterator[str]:
        yield f"@ 3600 SOA ns0 hostmaster {SERIAL} 7200 900 1209600 300"
        yield from ("@ 3600 NS ns0", "@ 3600 NS ns.elsewhere.test.", "ns0 3600 A 192.0.2.1")  # BIND requires a server with an address
        redirected: list[str] = []
        for name in sorted(self.names, key=lambda name: name.count(".")):
            if any(name.endswith(f".{owner}") for owner in redirected):
                continue  # RFC 6672 2.4: no records below a DNAME
            rtypes = self.types(name)
            redirected += [name] * ("DNAME" in rtypes)
            for rtype in rtypes:
                yield from self.rrset(name, rtype)

    def types(self, name: str) -> list[str]:
        """The types at one name that may coexist (RFC 2181 10.1, RFC 6672 2.4); no cut or DNAME at a wildcard, which BIND refuses."""
        kinds = ["host"] * 5 + ["CNAME", "CNAME"] + ["cut", "cut", "DNAME"] * (not name.startswith("*")) + ["none"]
        match self.rng.choice(kinds):
            case "host":
                return self.rng.sample(("A", "AAAA", "TXT", "MX", "SRV"), self.rng.randint(1, 3))
            case "cut":
                return ["NS", *self.rng.choice(((), ("DS",), ("A",), ("DS", "TXT")))]
            case "DNAME":
                return ["DNAME", *self.rng.choice(((), ("A",), ("TXT",)))]
            case "CNAME":
                return ["CNAME"]
        return []

    def rrset(self, name: str, rtype: str) -> Iterator[str]:
        single = rtype in ("CNAME", "DNAME")
        count = 1 if single else self.rng.choices((1, 2, 3, 40), (6, 4, 2, 0.3))[0]
        ttl = self.rng.choice((60, 300, 3600))
        for record in sorted({self.rdata(rtype, number) for number in range(count)}):
            yield f"{name} {ttl} {rtype} {record}"

    def rdata(self, rtype: str, number: int) -> str:
        match rtype:
            case "A":
                return f"192.0.2.{number}"
            case "AAAA":
                return f"2001:db8::{number:x}"
            case "TXT":
                return f'"{"t" * self.rng.choice((1, 20, 250))}{number}"'
            case "MX":
                return f"{number} {self.target()}"
            case "SRV":
                return f"{number} 0 53 {self.target()}"
            case "DS":
                return f"{number} 15 2 {number:064x}"
        return self.target()

    def target(self) -> str:
        """An existing name, a child or sibling of one, the apex, a name in another zone, or one that no server has."""
        name = self.rng.choice(self.names)
        return self.rng.choice(
            (name, name, name, f"x.{name}", f"x.y.{name}", self.name(), "@", f"{name}.{self.rng.choice(self.other_apexes)}", "ns.elsewhere.test.")
        )
