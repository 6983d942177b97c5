import base64
import hashlib
import random
from collections import Counter
from pathlib import Path

import dns.dnssec
import dns.name
import dns.rdataset
import dns.rdatatype
import dns.zone
import pytest

from zonda_lab.experiments.definition import ZoneSpec
from zonda_lab.zones import zone_shapes, zonegen


def parsed(spec: ZoneSpec, folder: Path, index: int = 0) -> dns.zone.Zone:
    made = zonegen.generate(spec, folder)
    zone = made.zones[index]
    assert zone.file is not None
    return dns.zone.from_file(str(zone.file), origin=zone.name, relativize=False, check_origin=False)


def rdataset(
    zone: dns.zone.Zone, name: dns.name.Name, qtype: str, covers: str = "NONE"
) -> dns.rdataset.Rdataset | None:
    return zone.get_rdataset(name, qtype, covers)


def test_zone_files_depend_only_on_the_seed(tmp_path: Path) -> None:
    texts = []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        made = zonegen.generate(ZoneSpec("tld", records=300, signed="nsec3", seed=seed), tmp_path / folder)
        assert made.zones[0].file is not None
        texts.append(made.zones[0].file.read_text())
    assert texts[0] == texts[1] != texts[2]


def test_zone_files_match_the_format_version() -> None:
    """After a change of the generator, increase zonegen.FORMAT, which invalidates cached zones."""
    specs = [
        ZoneSpec(shape, zones=1, records=200, signed=signed)
        for shape in zone_shapes.SHAPES
        for signed in ("no", "nsec")
    ]  # type: ignore[arg-type]
    text = "".join(line for spec in specs for _, line in zonegen.zone_text(zonegen.shape_of(spec), 0))
    assert (zonegen.FORMAT, hashlib.sha256(text.encode()).hexdigest()[:16]) == (4, "2df58a121d225b02")


def test_a_tld_has_the_measured_shape_of_gov() -> None:
    count = 16_536
    rrsets = list(zonegen.shape_of(ZoneSpec("tld", records=count, signed="nsec")).rrsets(0))
    cuts = [rrset.rdatas for rrset in rrsets if rrset.role == "cut"]
    assert len({rrset.owner for rrset in rrsets if rrset.role == "cut"}) == count
    assert sum(map(len, cuts)) / count == pytest.approx(2.66, abs=0.03)
    assert sum(len(servers) == 2 for servers in cuts) / count == pytest.approx(0.707, abs=0.015)
    assert sum(rrset.type == "DS" for rrset in rrsets) / count == pytest.approx(0.125, abs=0.01)
    sets = Counter(cuts)
    assert sum(uses == 1 for uses in sets.values()) / count == pytest.approx(0.31, abs=0.02)
    assert len(sets) / count == pytest.approx(0.385, abs=0.02)
    for most, share in ((100, 0.368), (500, 0.586), (2000, 0.736)):
        assert sum(uses for _, uses in sets.most_common(most)) / count == pytest.approx(share, abs=0.03)


def test_record_count_scales_with_delegations(tmp_path: Path) -> None:
    """2.66 NS per delegation plus glue: 4.8 M delegations have 14 M records, 2,000 have about 5,500."""
    assert zonegen.generate(ZoneSpec("tld", records=2000), tmp_path).records == pytest.approx(2000 * 14 / 4.8, rel=0.08)


@pytest.mark.parametrize("shape", ["root", "tld", "flat", "mixed", "tiny"])
@pytest.mark.parametrize("denial", ["nsec", "nsec3"])
def test_signatures_are_valid_and_the_chain_is_closed(shape: str, denial: str, tmp_path: Path) -> None:
    zone = parsed(ZoneSpec(shape, records=40, signed=denial), tmp_path)  # type: ignore[arg-type]
    apex = zone.origin
    assert apex is not None
    keys = {apex: rdataset(zone, apex, "DNSKEY")}
    cuts = [name for name in zone.nodes if name != apex and rdataset(zone, name, "NS")]
    for name, node in zone.nodes.items():
        for found in node.rdatasets:
            if found.rdtype == dns.rdatatype.RRSIG:
                continue
            signature = rdataset(zone, name, "RRSIG", dns.rdatatype.to_text(found.rdtype))
            if signature is not None:
                dns.dnssec.validate((name, found), (name, signature), keys, now=1_700_000_000)
            else:
                assert found.rdtype == dns.rdatatype.NS or any(name.is_subdomain(cut) for cut in cuts)
    assert walked_once(following(zone, denial))


def following(zone: dns.zone.Zone, denial: str) -> dict[dns.name.Name, dns.name.Name]:
    """The chain: owner to next owner."""
    links = {name: found[0].next for name in zone.nodes if (found := rdataset(zone, name, denial.upper()))}
    if denial == "nsec":
        return links
    encoded = {name: base64.b32hexencode(raw).decode() for name, raw in links.items()}
    return {name: dns.name.from_text(text, zone.origin) for name, text in encoded.items()}


def walked_once(links: dict[dns.name.Name, dns.name.Name]) -> bool:
    """The chain visits all owners in canonical order and returns to the first."""
    walked, at = [], min(links)
    for _ in links:
        walked.append(at)
        at = links[at]
    return at == walked[0] and walked == sorted(links)


def answer_kind(zone: dns.zone.Zone, name: dns.name.Name, qtype: str) -> str:
    """RFC 1034 4.3.2 for the simple generated zones."""
    ancestor = name.parent() if qtype == "DS" else name
    while ancestor != zone.origin:
        if rdataset(zone, ancestor, "NS"):
            return "referral"
        ancestor = ancestor.parent()
    if name not in zone.nodes:
        return "nxdomain"
    return "answer" if rdataset(zone, name, qtype) or rdataset(zone, name, "CNAME") else "nodata"


def test_labels_are_unique_and_unordered() -> None:
    labels = [zone_shapes.label(1, i, 4, 18) for i in range(5000)]
    assert len(set(labels)) == 5000
    assert labels[:100] != sorted(labels[:100])
    assert random.Random(0).sample(labels, 3) != sorted(labels)[:3]
