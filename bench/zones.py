"""Zones to measure: a root zone with queries for it, and a TLD."""

from __future__ import annotations

import random
from pathlib import Path

ROOT_DELEGATIONS = 500


def write_root_zone(folder: Path) -> None:
    """A root zone with glue, and queries for its delegations."""
    names = [f"tld{number}" for number in range(ROOT_DELEGATIONS)]
    with (folder / "root.zone").open("w") as zone:
        zone.write("$ORIGIN .\n$TTL 86400\n@ SOA a.root-servers.net. host. 1 1800 900 604800 86400\n@ NS a.root-servers.net.\n")
        for number, name in enumerate(names):
            zone.write("".join(f"{name} NS ns{i}.{name}\nns{i}.{name} A 10.{number >> 8}.{number & 255}.{i}\n" for i in range(4)))
    (folder / "queries").write_text("".join(f"www{number}.{names[number * 7 % len(names)]}. A\n" for number in range(10_000)))


def write_tld_zone(path: Path, delegations: int) -> int:
    """Writes the zone `tld.`; returns the number of its records."""
    rnd, records = random.Random(4), 4
    with path.open("w") as zone:
        zone.write("$ORIGIN tld.\n$TTL 3600\n@ SOA ns1 host 1 7200 900 1209600 300\n@ NS ns1\n@ NS ns2.example.\nns1 A 192.0.2.1\n")
        for number in range(delegations):
            name = f"domain{number}"
            if number % 10:
                provider = rnd.randrange(2000)
                zone.write("".join(f"{name} NS ns{i}.provider{provider}.example.\n" for i in (1, 2)))
                records += 2
            else:
                hosts = [f"ns{i}.{name}" for i in (1, 2)]
                zone.write("".join(f"{name} NS {host}\n{host} A 10.{number >> 16}.{number >> 8 & 255}.{number & 255}\n" for host in hosts))
                records += 4
    return records
