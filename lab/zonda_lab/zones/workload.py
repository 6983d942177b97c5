"""Query files in dnsperf's format, and files with the expected answers."""

import functools
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import QuerySpec, ZoneSpec
from zonda_lab.scratch import scratch_folder
from zonda_lab.servers.generator_servers import zonda_load
from zonda_lab.zones.trace_zones import TraceZones
from zonda_lab.zones.zone_shapes import Shape
from zonda_lab.zones.zonegen import cache_folder, digest, generate, shape_of


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
        with scratch_folder(folder) as scratch:
            drawn = scratch / "queries", scratch / "expect"
            shape = shape_of(zones)
            _capture(shape, queries, *drawn) if isinstance(shape, TraceZones) else _sample(shape, queries, *drawn)
            for path, target in zip(drawn, (asked, expected), strict=True):
                path.rename(target)
    return Workload(asked, expected, _rcodes(expected))


def _capture(trace: TraceZones, queries: QuerySpec, asked: Path, expected: Path) -> None:
    """Writes the questions of a trace, in their order."""
    captured = trace.questions[: queries.count]
    asked.write_text("".join(f"{question.name} {question.type}\n" for question in captured))
    expected.write_text("".join(f"{question.rcode} {question.kind}\n" for question in captured))


def _sample(shape: Shape, queries: QuerySpec, asked: Path, expected: Path) -> None:
    """Has `zonda-load sample` draw queries for generated zones."""
    program = zonda_load()
    if program is None:
        raise LabError("zonda-load draws the queries, and was not found", "`cargo build --release`, or set ZONDA_LOAD")
    zones = asked.with_name("zones")
    zones.write_text("".join(f"{zone.name} {zone.file}\n" for zone in generate(shape.spec).zones))
    options = {
        "zones": zones,
        "queries": asked,
        "expect": expected,
        "count": queries.count,
        "nxdomain": queries.nxdomain,
        "referral": 1 - queries.nxdomain if shape.delegates else 0,
        "types": ",".join(f"{name}={share}" for name, share in (queries.types or shape.types).items()),
        "zipf": 1 if queries.popularity == "zipf" else 0,
        "seed": queries.seed,
    }
    command = [str(program), "sample", *(f"--{option}={value}" for option, value in options.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"no queries for zones of the shape {shape.spec.shape}", detail=done.stderr.strip())


@functools.cache
def _rcodes(expected: Path) -> dict[str, float]:
    counted = Counter(line.split()[0] for line in expected.read_text().splitlines())
    return {rcode: count / counted.total() for rcode, count in counted.items()}
