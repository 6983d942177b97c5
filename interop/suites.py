"""What is asked in a run: scenes, each a set of zones that all servers load together, with the suites of questions asked there."""

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

import malformed
import questions
import random_zones
import signing
from message import Question
from names import wire_name
from servers import ROOT, Zone
from zonedata import read
from zoneset import ZoneSet
from zonetext import ZONES, expanded

# Zones of this folder and the texts they are made from; those not here are in signed/, under their own names.
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
# Who refuses to load which zone: it is not asked about it.
REFUSED = {
    "nsd": {wire_name("hidden.example.")},
    "knot": {wire_name("cutdname.example."), wire_name("hidden.example.")},
    "bind": {wire_name("wildns.example."), wire_name("nons.example.")},
}
QUICK_SHARE = 0.02
# How many zones are made by chance, and how much of what can be asked of them is asked.
RANDOM_ZONES, RANDOM_SHARE = 10, 0.3
TCP_SHARE = 0.05


class Absent(RuntimeError):
    """Input that is not on this machine."""


@dataclass(frozen=True)
class Suite:
    """Questions asked together. Of ill-formed ones only RCODE and silence are compared."""

    name: str
    ask: Callable[[], list[Question]]
    ill_formed: bool = False


@dataclass
class Scene:
    """Zones served together and what is asked of them."""

    name: str
    zones: list[Zone]
    suites: list[Suite] = field(default_factory=list)

    def load(self) -> ZoneSet:
        return ZoneSet({zone.apex: read(zone.file, zone.name) for zone in self.zones})


def oddities(folder: Path, quick: bool) -> Scene:
    """The zones of this repository."""
    sources = UNSIGNED | {path.name.removesuffix("zone"): f"signed/{path.name}" for path in sorted((ZONES / "signed").iterdir())}
    zones = [written(folder, name, expanded(ZONES / source)) for name, source in sources.items()]
    scene = Scene("oddities", zones)
    share = QUICK_SHARE if quick else 1.0
    for zone in zones:
        ask = partial(of_zone, zone, share)
        scene.suites.append(Suite(zone.name, ask))
        scene.suites.append(Suite(f"{zone.name} over TCP", partial(over_tcp, ask, 1.0 if quick else TCP_SHARE)))
    name, apex = wire_name("www.plain.example."), wire_name("plain.example.")
    scene.suites.append(Suite("ill-formed messages", partial(malformed.questions, name, apex), ill_formed=True))
    scene.suites.append(Suite("ill-formed messages over TCP", partial(malformed.questions, name, apex, True), ill_formed=True))
    return scene


def of_zone(zone: Zone, share: float) -> list[Question]:
    return questions.sample(questions.of_zone(read(zone.file, zone.name)), share)


def over_tcp(ask: Callable[[], list[Question]], share: float) -> list[Question]:
    return questions.over_tcp(questions.sample(ask(), share))


def random(folder: Path, quick: bool, seed: int) -> Scene:
    """Zones by chance, each unsigned and signed in three ways."""
    zones, share = (2, RANDOM_SHARE * 0.2) if quick else (RANDOM_ZONES, RANDOM_SHARE)
    if not signing.CAN_SIGN:
        raise Absent("zones are signed with dnssec-signzone (Debian: bind9-utils) and the Python package cryptography")
    denials = {"plain": None, "nsec": signing.NSEC, "nsec3": signing.NSEC3, "optout": signing.OPT_OUT}
    scene = Scene("random", [])
    for number, (kind, denial) in product(range(seed, seed + zones), denials.items()):
        others = [f"s{other}.{kind}.random." for other in range(seed, seed + zones)]
        name, text = f"s{number}.{kind}.random.", random_zones.text(number, others)
        if denial is not None:
            text = "\n".join(signing.sign(folder, name, f"$ORIGIN {name}\n{text}", denial)[0]) + "\n"
        zone = written(folder, name, text)
        scene.zones.append(zone)
        scene.suites.append(Suite(name, partial(of_zone, zone, share)))
    return scene


def gov(folder: Path) -> Scene:
    """The .gov zone of its newest day."""
    zone = written(folder, "gov.", newest_gov(data("gov/gov-series-2026.tar.xz")))
    ask = partial(of_delegations, zone, 0.2)
    return Scene("gov", [zone], [Suite("gov.", ask), Suite("gov. over TCP", partial(over_tcp, ask, TCP_SHARE))])


def root(folder: Path, year: int) -> Scene:
    """One of the signed root zones, asked by its text, by the log of 2001 with and without DO, and by the capture of 2016."""
    zone = written(folder, ".", lzma.decompress(data(f"root/root-{year}-signed.zone.xz").read_bytes()).decode())
    ask = partial(of_delegations, zone, 1.0)
    log, capture = data("queries/root-2001.queries.xz"), data("pcap/root-server-2016.pcap.xz")
    return Scene(
        f"root-{year}",
        [zone],
        [
            Suite("its delegations", ask),
            Suite("its delegations over TCP", partial(over_tcp, ask, TCP_SHARE)),
            Suite("log of 2001", partial(questions.of_root_log, log)),
            Suite("log of 2001, DO", partial(questions.of_root_log, log, 1232, True)),
            Suite("capture of 2016", partial(questions.of_capture, capture)),
        ],
    )


def of_delegations(zone: Zone, share: float) -> list[Question]:
    return questions.of_delegations(read(zone.file, zone.name), share)


def written(folder: Path, name: str, text: str) -> Zone:
    """Writes a zone file and describes it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name.rstrip('.') or 'root'}.zone"
    file.write_text(text)
    return Zone(wire_name(name).lower(), name, file)


def data(path: str) -> Path:
    """A file of the real input; raises `Absent`."""
    folder = Path(os.environ.get("ZONDA_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / path).exists():
        raise Absent(f"{path} is not there (set ZONDA_DATA to the folder that holds it)")
    return folder / path


def newest_gov(archive: Path) -> str:
    """The text of the newest zone in the series; the names hold the time of export."""
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


def scenes(names: list[str], folder: Path, quick: bool, seed: int, absent: Callable[[str, Absent], None]) -> Iterator[Scene]:
    """The scenes of these names; `absent` hears of those whose input is not on this machine."""
    for name in names:
        try:
            yield SCENES[name](folder / name / "zones", quick, seed)
        except Absent as missing:
            absent(name, missing)
