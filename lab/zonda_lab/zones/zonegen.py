"""Writes zone files into a cache: of five shapes from fixed seeds, or built from a trace."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import ZoneSpec
from zonda_lab.scratch import scratch_folder
from zonda_lab.servers.config import Zone
from zonda_lab.zones import captures
from zonda_lab.zones.dnssec_signing import signed
from zonda_lab.zones.trace_zones import TraceZones
from zonda_lab.zones.zone_shapes import SHAPES, Shape, ZoneSource

FORMAT = 4  # increase when the same spec gives different files, to invalidate cached zones


@dataclass(frozen=True)
class ZoneSet:
    """Generated zones on disk."""

    zones: tuple[Zone, ...]
    records: int
    bytes: int


def shape_of(spec: ZoneSpec) -> Shape | TraceZones:
    """The shape of `spec`."""
    return TraceZones(spec) if spec.shape == "trace" else SHAPES[spec.shape](spec)


def cache_folder() -> Path:
    """The cache of generated zones and queries."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zonda-lab"


def generate(spec: ZoneSpec, folder: Path | None = None, progress: Callable[[int], None] = lambda _: None) -> ZoneSet:
    """Writes the zones of `spec` unless cached; calls `progress` with the number of records so far."""
    target = (folder or cache_folder() / "zones") / f"{spec.shape}-{digest(spec)}"
    if not (target / "zones.json").exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target.parent) as scratch:
            _write_all(spec, scratch, progress)
            scratch.chmod(0o755)
            scratch.rename(target)
    shape, counted = shape_of(spec), json.loads((target / "zones.json").read_text())
    zones = tuple(Zone(shape.apex(i), target / file_name(i)) for i in range(shape.zones))
    return ZoneSet(zones, counted["records"], counted["bytes"])


def file_name(index: int) -> str:
    """The file name of a zone; each folder has a thousand zones."""
    return f"{index // 1000:03}/{index}.zone"


def zone_text(shape: ZoneSource, index: int) -> Iterator[tuple[int, str]]:
    """The text of each RRset with its number of records."""
    rrsets = shape.rrsets(index)
    if shape.spec.signed != "no":
        rrsets = signed(rrsets, shape.apex(index), shape.spec.signed, shape.spec.seed)
    for owner, ttl, qtype, rdatas, _ in rrsets:
        yield len(rdatas), "".join([f"{owner} {ttl} IN {qtype} {rdata}\n" for rdata in rdatas])


def digest(*specs: object) -> str:
    """The cache key for the given specs."""
    traces = [captures.find(spec.trace) for spec in specs if isinstance(spec, ZoneSpec) and spec.trace]
    contents = [captures.digest(trace) for trace in traces]
    text = json.dumps([FORMAT, *contents, *(asdict(spec) for spec in specs)], sort_keys=True)  # type: ignore[call-overload]
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write_all(spec: ZoneSpec, folder: Path, progress: Callable[[int], None]) -> None:
    shape, records = shape_of(spec), 0
    for index in range(shape.zones):
        path = folder / file_name(index)
        path.parent.mkdir(exist_ok=True)
        with path.open("w") as file:
            for count, text in zone_text(shape, index):
                file.write(text)
                records += count
                if records % 10_000 < count:
                    progress(records)
    size = sum(path.stat().st_size for path in folder.rglob("*.zone"))
    (folder / "zones.json").write_text(json.dumps({"records": records, "bytes": size}))


def set_serial(zone: Path, number: int) -> None:
    """Changes the SOA serial of a generated zone in place; it has ten digits and is in the first line."""
    with zone.open("r+") as file:
        soa = file.readline().split()
        at = len(" ".join(soa[:6])) + 1
        if soa[3] != "SOA" or not (10**9 <= number < 2**32):
            raise LabError(f"{zone}: no serial to change")
        file.seek(at)
        file.write(str(number))
