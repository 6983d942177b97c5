"""Random zones are valid and cover all combinations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import random_zones
from dns_numbers import CNAME, DNAME, NS, SOA, A
from names import labels
from zone_data import ZoneData

APEX = "s1.random."


@pytest.mark.parametrize("seed", range(30))
def test_a_random_zone_is_valid(zone_of: Callable[[str, str], ZoneData], seed: int) -> None:
    text = random_zones.random_zone(seed, ["s2.random."])
    assert text == random_zones.random_zone(seed, ["s2.random."])
    zone = zone_of(APEX, text)
    assert len(zone.owners) > 10 and {SOA, NS} <= zone.owners[zone.apex]
    for owner, types in zone.owners.items():
        assert types == {CNAME} or CNAME not in types
        assert zone.dname_above(owner) is None
        assert labels(owner)[0] != b"*" or not types & {NS, DNAME}


def test_random_zones_contain_all_combinations(zone_of: Callable[[str, str], ZoneData]) -> None:
    zones = [zone_of(APEX, random_zones.random_zone(seed, ["s2.random."])) for seed in range(30)]
    owners = [(zone, owner) for zone in zones for owner in zone.owners]
    assert any(zone.cut_above(owner) not in (None, owner) for zone, owner in owners), "names below cuts"
    assert any(b"*" in labels(owner)[1:] for _, owner in owners), "names below wildcards"
    assert any(name not in zone.owners for zone in zones for name in zone.names), "empty non-terminals"
    assert any(len(zone.rrset(owner, A)) == 40 for zone, owner in owners), "answers that are truncated"
