"""Queries and expected answers, drawn by `zonda-load sample`."""

from collections import Counter
from pathlib import Path

import dns.name
import pytest
from test_zonegen import answer_kind, parsed

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import QuerySpec, ZoneSpec
from zonda_lab.zones.workload import workload

pytestmark = pytest.mark.usefixtures("zonda_load")


def drawn(zones: ZoneSpec, queries: QuerySpec, folder: Path) -> list[tuple[list[str], str]]:
    """Each query (name and type) with its expectation."""
    made = workload(zones, queries, folder)
    asked, expected = made.queries.read_text().splitlines(), made.expectation.read_text().splitlines()
    assert len(asked) == len(expected) == queries.count
    return [(line.split(), answer) for line, answer in zip(asked, expected, strict=True)]


@pytest.mark.parametrize("shape", ["root", "tld", "flat", "mixed", "tiny"])
def test_every_question_has_its_expected_answer(shape: str, tmp_path: Path) -> None:
    spec = ZoneSpec(shape, zones=2 if shape in ("flat", "mixed", "tiny") else 1, records=150)  # type: ignore[arg-type]
    zones = [parsed(spec, tmp_path, i) for i in range(spec.zones)]
    for (name, qtype), expected in drawn(spec, QuerySpec(count=400, nxdomain=0.3), tmp_path):
        asked = dns.name.from_text(name)
        zone = next(zone for zone in zones if zone.origin is not None and asked.is_subdomain(zone.origin))
        assert answer_kind(zone, asked, qtype) == expected.split()[1], (name, qtype)


def test_query_types_have_the_published_shares(tmp_path: Path) -> None:
    queries = drawn(ZoneSpec("mixed", records=1000), QuerySpec(count=20_000), tmp_path)
    asked = Counter(qtype for (_, qtype), _ in queries)
    for qtype, share in {"A": 0.60, "CNAME": 0.20, "SRV": 0.10, "MX": 0.04, "TXT": 0.03, "NS": 0.03}.items():
        assert asked[qtype] / 20_000 == pytest.approx(share, abs=0.012)


def test_names_that_do_not_exist_have_their_share(tmp_path: Path) -> None:
    queries = drawn(ZoneSpec("tld", records=100), QuerySpec(count=500, nxdomain=0.4), tmp_path)
    assert all(name.startswith("nx") == (expected == "NXDOMAIN nxdomain") for (name, _), expected in queries)
    made = workload(ZoneSpec("tld", records=100), QuerySpec(count=500, nxdomain=0.4), tmp_path)
    assert made.rcodes["NXDOMAIN"] == pytest.approx(0.4, abs=0.07)


def test_zipf_queries_few_names_often_and_uniform_does_not(tmp_path: Path) -> None:
    top = {}
    for popularity in ("uniform", "zipf"):
        queries = QuerySpec(count=10_000, popularity=popularity)  # type: ignore[arg-type]
        asked = Counter(name for (name, _), _ in drawn(ZoneSpec("flat", records=10_000), queries, tmp_path))
        top[popularity] = sum(count for _, count in asked.most_common(100)) / 10_000
    assert top["uniform"] < 0.06
    assert top["zipf"] == pytest.approx(0.53, abs=0.05)  # (ln(100) + 0.58) / (ln(10,000) + 0.58)


def test_a_type_that_no_name_has_is_one_error_message(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"no queries for zones of the shape flat\n.*the zone has no MX record"):
        workload(ZoneSpec("flat", records=5), QuerySpec(types={"MX": 1.0}), tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".queries", ".expect")]
