"""Query files in dnsperf's format for generated zones, and files with the expected answers."""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.experiment import QuerySpec, ZoneSpec
from zonda_lab.trace_zones import TraceZones
from zonda_lab.zone_shapes import Question
from zonda_lab.zonegen import cache_folder, digest, shape_of


@dataclass(frozen=True)
class Workload:
    """A query file (`name type` per line) and the expected answers (`rcode kind` per line, same order)."""

    queries: Path
    expectation: Path
    rcodes: dict[str, float]


def workload(zones: ZoneSpec, queries: QuerySpec, folder: Path | None = None) -> Workload:
    """Writes the two files unless they are cached; `rcodes` has the expected share of each RCODE."""
    folder = folder or cache_folder() / "queries"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{zones.shape}-{digest(zones, queries)}"
    asked, expected = folder / f"{stem}.queries", folder / f"{stem}.expect"
    if not (asked.exists() and expected.exists()):
        drawn = list(draw(zones, queries))
        _write(asked, (f"{q.name} {q.type}\n" for q in drawn))
        _write(expected, (f"{q.rcode} {q.kind}\n" for q in drawn))
    return Workload(asked, expected, _rcodes(expected))


def draw(zones: ZoneSpec, queries: QuerySpec) -> Iterator[Question]:
    """Generates the questions in order; for zones from a trace, its questions."""
    shape, random_ = shape_of(zones), random.Random(queries.seed)
    if isinstance(shape, TraceZones):
        yield from shape.questions[: queries.count]
        return
    types = queries.types or shape.types
    names, cumulative = list(types), list(itertools.accumulate(types.values()))
    total = zones.zones * max(1, zones.records)
    for _ in range(queries.count):
        qtype = random_.choices(names, cum_weights=cumulative)[0]
        zone, rank = divmod(_rank(total, queries.popularity, random_), max(1, zones.records))
        if random_.random() < queries.nxdomain:
            yield shape.negative(zone, qtype, random_)
        else:
            yield shape.positive(zone, rank, qtype, random_)


def _rank(total: int, popularity: str, draw: random.Random) -> int:
    """A uniform or Zipf (exponent 1) rank, permuted so that popular names are not adjacent."""
    if popularity == "uniform":
        return draw.randrange(total)
    rank = int(total ** draw.random()) - 1
    return rank * 2_654_435_761 % total


@functools.cache
def _rcodes(expected: Path) -> dict[str, float]:
    counted = Counter(line.split()[0] for line in expected.read_text().splitlines())
    return {rcode: count / counted.total() for rcode, count in counted.items()}


def _write(path: Path, lines: Iterator[str]) -> None:
    scratch = path.with_suffix(path.suffix + ".new")
    scratch.write_text("".join(lines))
    scratch.rename(path)
