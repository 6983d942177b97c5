"""Defines the scenes of a run: sets of zones that all servers load together, and the suites of queries about them."""

from __future__ import annotations

import lzma
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import malformed_queries
import query_generation
import random_zones
import zone_signing
from message import Query
from names import wire_name
from servers import ROOT, Zone
from zone_data import read
from zone_set import ZoneSet
from zone_text import ZONES, expanded

# Unsigned zones and their zone files; the files in signed/ have the names of their zones.
UNSIGNED = {
    "plain.example.": "oddities.zone",
    "child.plain.example.": "child.zone",
    "dname.example.": "dname.zone",
    "loose.example.": "loose.zone",
    "wildns.example.": "wildns.zone",
    "cutdname.example.": "cutdname.zone",
    "hidden.example.": "hidden.zone",
    "nons.example.": "nons.zone",
    "x.": "deep.zone",
}
# Zones that a server refuses to load: it gets no queries about them.
REFUSED = {
    "nsd": {wire_name("hidden.example.")},
    "knot": {wire_name("cutdname.example."), wire_name("hidden.example.")},
    "bind": {wire_name("wildns.example."), wire_name("nons.example.")},
}
QUICK_SHARE = 0.02
# Number of random zones, and the share of their queries that is sent.
RANDOM_ZONES, RANDOM_SHARE = 10, 0.3
TCP_SHARE = 0.05


class MissingInput(RuntimeError):
    """Input that is not on this machine."""


@dataclass(frozen=True)
class Suite:
    """Queries sent together. For malformed ones only the outcome is compared."""

    name: str
    make_queries: Callable[[], list[Query]]
    malformed: bool = False


@dataclass
class Scene:
    """Zones served together, and the suites of queries about them."""

    name: str
    zones: list[Zone]
    suites: list[Suite] = field(default_factory=list)

    def load(self) -> ZoneSet:
        return ZoneSet({zone.apex: read(zone.file, zone.name) for zone in self.zones})


def oddities(folder: Path, quick: bool) -> Scene:
    """The zones of this repository."""
    sources = UNSIGNED | {path.name.removesuffix("zone"): f"signed/{path.name}" for path in sorted((ZONES / "signed").iterdir())}
    zones = [write_zone(folder, name, expanded(ZONES / source)) for name, source in sources.items()]
    scene = Scene("oddities", zones)
    share = QUICK_SHARE if quick else 1.0
    for zone in zones:
        make_queries = partial(zone_queries, zone, share)
        scene.suites.append(Suite(zone.name, make_queries))
        scene.suites.append(Suite(f"{zone.name} over TCP", partial(over_tcp, make_queries, 1.0 if quick else TCP_SHARE)))
    name, apex = wire_name("www.plain.example."), wire_name("plain.example.")
    scene.suites.append(Suite("malformed queries", partial(malformed_queries.malformed_queries, name, apex), malformed=True))
    scene.suites.append(Suite("malformed queries over TCP", partial(malformed_queries.malformed_queries, name, apex, True), malformed=True))
    return scene


def zone_queries(zone: Zone, share: float) -> list[Query]:
    return query_generation.sample(query_generation.queries_for_zone(read(zone.file, zone.name)), share)


def over_tcp(make_queries: Callable[[], list[Query]], share: float) -> list[Query]:
    return query_generation.over_tcp(query_generation.sample(make_queries(), share))


def random(folder: Path, quick: bool, seed: int) -> Scene:
    """Random zones, each unsigned and signed in three ways."""
    zones, share = (2, RANDOM_SHARE * 0.2) if quick else (RANDOM_ZONES, RANDOM_SHARE)
    if not zone_signing.CAN_SIGN:
        raise MissingInput("zones are signed with dnssec-signzone (Debian: bind9-utils)")
    denials = {"plain": None, "nsec": zone_signing.NSEC, "nsec3": zone_signing.NSEC3, "optout": zone_signing.OPT_OUT}
    scene = Scene("random", [])
    for number, (kind, denial) in product(range(seed, seed + zones), denials.items()):
        others = [f"s{other}.{kind}.random." for other in range(seed, seed + zones)]
        name, text = f"s{number}.{kind}.random.", random_zones.random_zone(number, others)
        if denial is not None:
            text = "\n".join(zone_signing.sign(folder, name, f"$ORIGIN {name}\n{text}", denial)[0]) + "\n"
        zone = write_zone(folder, name, text)
        scene.zones.append(zone)
        scene.suites.append(Suite(name, partial(zone_queries, zone, share)))
    return scene


def gov(folder: Path) -> Scene:
    """The newest .gov zone of the series."""
    zone = write_zone(folder, "gov.", newest_gov(data_file("gov/gov-series-2026.tar.xz")))
    make_queries = partial(delegation_queries, zone, 0.2)
    return Scene("gov", [zone], [Suite("gov.", make_queries), Suite("gov. over TCP", partial(over_tcp, make_queries, TCP_SHARE))])


def root(folder: Path, year: int) -> Scene:
    """A signed root zone, queried about its delegations, with the query log of 2001 (without and with DO) and with the capture of 2016."""
    zone = write_zone(folder, ".", lzma.decompress(data_file(f"root/root-{year}-signed.zone.xz").read_bytes()).decode())
    make_queries = partial(delegation_queries, zone, 1.0)
    log, capture = data_file("queries/root-2001.queries.xz"), data_file("pcap/root-server-2016.pcap.xz")
    return Scene(
        f"root-{year}",
        [zone],
        [
            Suite("delegations", make_queries),
            Suite("delegations over TCP", partial(over_tcp, make_queries, TCP_SHARE)),
            Suite("query log of 2001", partial(query_generation.queries_from_log, log)),
            Suite("query log of 2001, DO", partial(query_generation.queries_from_log, log, 1232, True)),
            Suite("capture of 2016", partial(query_generation.queries_from_capture, capture)),
        ],
    )


def delegation_queries(zone: Zone, share: float) -> list[Query]:
    return query_generation.queries_for_delegations(read(zone.file, zone.name), share)


def write_zone(folder: Path, name: str, text: str) -> Zone:
    """Writes a zone file and describes it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name.rstrip('.') or 'root'}.zone"
    file.write_text(text)
    return Zone(wire_name(name).lower(), name, file)


def data_file(path: str) -> Path:
    """The path of a data file; raises `MissingInput`."""
    folder = Path(os.environ.get("ZONDA_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / path).exists():
        raise MissingInput(f"{path} is not there (set ZONDA_DATA to the folder that holds it)")
    return folder / path


def newest_gov(archive: Path) -> str:
    """The newest zone file of the series; its name is the time of export."""
    with tarfile.open(archive) as tar:
        newest = max((m for m in tar.getmembers() if re.search(r"gov-\d+\.zone$", m.name)), key=lambda m: m.name)
        file = tar.extractfile(newest)
        assert file is not None
        return file.read().decode()


SCENES: dict[str, Callable[[Path, bool, int], Scene]] = {
    "oddities": lambda folder, quick, _: oddities(folder, quick),
    "random": random,
    "gov": lambda folder, *_: gov(folder),
    "root-2021": lambda folder, *_: root(folder, 2021),
    "root-2011": lambda folder, *_: root(folder, 2011),
}


def scenes(names: list[str], folder: Path, quick: bool, seed: int, on_missing: Callable[[str, MissingInput], None]) -> Iterator[Scene]:
    """The scenes of these names; calls `on_missing` for those whose input is missing."""
    for name in names:
        try:
            yield SCENES[name](folder / name / "zones", quick, seed)
        except MissingInput as missing:
            on_missing(name, missing)
