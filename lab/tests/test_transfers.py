import pytest
from conftest import Make

from zonda_lab.load.zone_probe import Arrivals
from zonda_lab.procedures import transfers


def test_the_rate_of_censored_transfers_is_an_upper_bound() -> None:
    """If 300 of 1,000 zones come in 10 s, and the rest in one second more, 91 per second are not "at most 30"."""
    arrivals = Arrivals({f"zone{i}.": 0.0 for i in range(300)}, missing=700)
    rates = transfers._rates(arrivals, 5_000, 10.0, censored=True)
    assert rates["zones_per_s"] >= 1_000 / 11
    assert rates["records_per_s"] >= 5_000 / 11
    assert transfers._rates(arrivals, 5_000, 10.0, censored=False)["zones_per_s"] == 30


@pytest.mark.parametrize("missing", [0.0, 700.0])
def test_what_zones_that_came_used_bounds_what_all_use(make_record: Make, missing: float) -> None:
    """It must not be divided by the records of all zones if some never come, and compared as if they had."""
    record = make_record(1, zones_missing=missing)
    used = ("primary_cpu_us_per_record", "bytes_per_record", "bytes_per_zone", "rss_mb", "pss_mb", "peak_mb")
    assert {record.bound(metric) for metric in used} == {"at least" if missing else ""}


@pytest.mark.parametrize("is_complete", [True, False])
def test_the_ratio_of_cpu_times_needs_all_zones(is_complete: bool) -> None:
    costs = transfers._costs(2.0, 1.0, 1_000_000, is_complete)
    assert costs["cpu_us_per_record"] == 2.0 and costs["primary_cpu_us_per_record"] == 1.0
    assert ("primary_secondary_ratio" in costs) == is_complete
