import numpy as np
import pytest
from conftest import Make, blocks

from zonda_lab.analysis import analysis, claims
from zonda_lab.experiments.definition import Claim, Published
from zonda_lab.report.document import Text
from zonda_lab.report.result_tables import claims as claims_table


def test_a_claimed_ratio_with_a_zero_is_not_measured(make_record: Make) -> None:
    """The blocks with a zero must not be left out: the ratio would be that of the others."""
    drops = {"nsd": 5.0, "knot": 10.0}
    records = [make_record(b, server=s, udp_drops=n) for b in range(5) for s, n in drops.items()]
    claim = Claim("x", "y", "udp_drops", {"server.name": "knot"}, {"server.name": "nsd"}, 1.9, 2.1)
    assert claims.check_claim(records, claim)[0].outcome == "confirmed"
    records[1].metrics["udp_drops"] = 0.0
    assert claims.check_claim(records, claim)[0].outcome == "not measured"


@pytest.mark.parametrize(
    ("low", "high", "outcome"), [(1.05, 1.15, "confirmed"), (1.2, 1.5, "refuted"), (1.0999, 1.1001, "inconclusive")]
)
def test_claims_are_ratios_paired_by_block(make_record: Make, low: float, high: float, outcome: str) -> None:
    records = blocks(make_record, {"knot": 1.1}, n=30, noise=0.005, seed=11)
    claim = Claim("x", "y", "cpu_us_per_query", {"server.name": "knot"}, {"server.name": "nsd"}, low, high)
    done = claims.check_claim(records, claim)[0]
    assert done.value == pytest.approx(1.1, abs=0.01)
    assert done.outcome == outcome


@pytest.mark.parametrize(("noise", "outcome"), [(0.2, "confirmed"), (0.01, "refuted")])
def test_a_claim_about_spreads_compares_them(make_record: Make, noise: float, outcome: str) -> None:
    draw = np.random.default_rng(7)
    scatter = {"pinned": 0.01, "free": noise}
    records = [
        make_record(
            block, copy, server="nsd", placement=level, cpu_us_per_query=3.0 * draw.lognormal(0, scatter[level])
        )
        for block in range(20)
        for level, copy in (("pinned", 0), ("pinned", 1), ("free", 0))
    ]
    claim = Claim("x", "y", "cpu_us_per_query", {"placement": "free"}, {"placement": "pinned"}, low=2.0, spread=True)
    done = claims.check_claim(records, claim)[0]
    assert done.outcome == outcome and done.n == 20
    assert done.value == pytest.approx(noise / 0.01, rel=0.6) and done.low < done.value < done.high
    assert claims.check_claim(records[:6], claim)[0].outcome == "not measured"  # of two blocks
    few = claims.check_claim(records[:21], claim)[0]
    assert (few.n, few.low, few.high, few.outcome) == (7, 0.0, float("inf"), "inconclusive")


@pytest.mark.parametrize("to", [{}, {"server.name": "knot"}])
def test_a_claim_is_about_the_first_baseline_only(make_record: Make, to: dict[str, str]) -> None:
    """The tables show the first runs, so a claim must not average both."""
    costs = {("nsd", 0): 3.0, ("nsd", 1): 9.0, ("knot", 0): 1.0}
    records = [
        make_record(block, copy, server=server, cpu_us_per_query=cost)
        for block in range(6)
        for (server, copy), cost in costs.items()
    ]
    claim = Claim("x", "y", "cpu_us_per_query", {"server.name": "nsd"}, to, 2.9, 3.1)
    done = claims.check_claim(records, claim)[0]
    assert (done.value, done.outcome) == (pytest.approx(3.0), "confirmed")


def test_a_claim_without_measurements_is_not_measured(make_record: Make) -> None:
    claim = Claim("x", "y", "transfer_s", {"server.name": "bind"}, {})
    assert claims.check_claim(blocks(make_record, {}), claim)[0].outcome == "not measured"
    absolute = Claim("x", "y", "cpu_us_per_query", {"server.name": "nsd"}, {}, 0.0, 100.0)
    assert claims.check_claim(blocks(make_record, {}), absolute)[0].outcome == "confirmed"


def test_the_conditions_of_a_claim_are_one_family(make_record: Make) -> None:
    """Of many conditions without an effect one in twenty must not be refuted by chance."""
    records = [
        make_record(block, server=server, load=str(load), transfer_s=value * (1 + 0.01 * (block * 7 % 5)))
        for load in range(8)
        for block in range(6)
        for server, value in (("nsd", 1.0), ("knot", 1.02 + 0.03 * (block % 2)))
    ]
    claim = Claim("x", "y", "transfer_s", {"server.name": "knot"}, {"server.name": "nsd"}, 0.9, 1.06)
    alone = claims.check_claim([r for r in records if r.treatment["load"] == "0"], claim)[0]
    one = claims.check_claim(records, claim)[0]
    assert (alone.value, alone.outcome) == (one.value, "confirmed")
    assert one.low < alone.low and one.high > alone.high and one.outcome == "inconclusive"
    assert one.mde > alone.mde


def test_no_effect_is_not_confirmed_below_the_minimum_detectable_effect(make_record: Make) -> None:
    """An effect below 10 % must not be confirmed where the table says that three starts detect 11.6 % (E6)."""
    noise = (0.968, 1.0, 1.041)
    records = [
        make_record(block, server=server, transfer_s=noise[block] if server == "knot" else 1.0)
        for block in range(3)
        for server in ("nsd", "knot")
    ]
    claim = Claim("x", "y", "transfer_s", {"server.name": "knot"}, {"server.name": "nsd"}, 0.9, 1.1)
    done = claims.check_claim(records, claim)[0]
    assert done.low > 0.9 and done.high < 1.1 < 1 + done.mde
    assert done.outcome == "inconclusive"


@pytest.mark.parametrize(
    ("starts", "events", "outcome", "text"),
    [
        (6, 0, "inconclusive", "0 of 6 starts (0% – 46%)"),
        (80, 0, "refuted", "0 of 80 starts (0% – 5%)"),
        (6, 1, "confirmed", "1 of 6 starts (0% – 64%)"),
        (2, 0, "inconclusive", "0 of 2 starts (0% – 84%)"),
    ],
)
def test_what_happens_in_some_starts_is_not_refuted_by_a_few(
    make_record: Make, starts: int, events: int, outcome: str, text: str
) -> None:
    """Six starts without an occasional lock-up must not refute it (E19)."""
    records = [make_record(b, server="bind", udp_answered_share=0.2 if b < events else 1.0) for b in range(starts)]
    claim = Claim("x", "y", "udp_answered_share", {"server.name": "bind"}, event=0.99, low=0.05)
    done = claims.check_claim(records, claim)[0]
    assert (done.outcome, done.text) == (outcome, text)


def test_one_block_decides_no_claim(make_record: Make) -> None:
    claim = Claim("x", "y", "cpu_us_per_query", {"server.name": "nsd"}, {}, 2.0, 4.0)
    assert claims.check_claim([make_record(0, cpu_us_per_query=3.0)], claim)[0].outcome == "inconclusive"


@pytest.mark.parametrize(("waiting", "outcome"), [(28_000.0, "refuted"), (6_003.0, "not testable here")])
def test_a_remedy_is_not_refuted_where_the_fault_did_not_happen(
    make_record: Make, waiting: float, outcome: str
) -> None:
    """With 6,003 of 28,232 ports in TIME_WAIT, the remedies for port exhaustion must not be refuted (E14)."""
    claim = Claim("x", "y", "transfer_s", {"tuning": "b"}, {"tuning": "a"}, 0.0, 0.2, requires={"time_wait_max": 2e4})
    each = [(block, level) for block in range(5) for level in "ab"]
    records = [make_record(n, tuning=x, transfer_s=20.0 + n / 10, time_wait_max=waiting) for n, x in each]
    done = claims.check_claim(records, claim)
    assert [check.outcome for check in done] == [outcome]
    text = "maximum sockets in TIME_WAIT 6,003, at least 20,000 are required"
    assert done[0].lacking == ("" if outcome == "refuted" else text)
    shown = [part.text for part in claims_table(done) if isinstance(part, Text)]
    assert shown == ([] if outcome == "refuted" else [f"x: nsd: {text}."])


def test_a_figure_that_was_not_verified_decides_nothing(make_record: Make) -> None:
    """A figure recalled from a paper must be neither confirmed nor refuted (E21)."""
    claim = Claim("x", "y", "cpu_us_per_query", {"server.name": "nsd"}, {}, 2.0, 4.0, unverified="it was recalled")
    records = [make_record(block, cpu_us_per_query=3.0 + block / 100) for block in range(6)]
    done = claims.check_claim(records, claim)
    assert [check.outcome for check in done] == ["inconclusive"]
    assert [part.text for part in claims_table(done) if isinstance(part, Text)] == ["x: it was recalled."]


def test_what_this_machine_cannot_answer_is_not_testable_here(make_record: Make) -> None:
    claim = Claim("x", "y", "answered_qps", untestable="needs four cores")
    records = [make_record(0, server=server, answered_qps=3.0) for server in ("nsd", "knot")]
    assert [done.outcome for done in claims.check_claim(records, claim)] == ["not testable here"]


@pytest.mark.parametrize(
    ("order", "outcome", "measured"),
    [
        (["knot", "nsd", "zonda"], "confirmed", "knot > nsd > zonda"),
        (["knot", "nsd = zonda"], "confirmed", "knot > nsd > zonda"),
        (["knot", "absent", "nsd = zonda"], "inconclusive", "knot > nsd > zonda; without absent"),
        (["zonda", "absent", "knot"], "refuted", "knot > zonda; without absent"),
        (["zonda", "nsd", "knot"], "refuted", "knot > nsd > zonda"),
        (["same", "nsd", "zonda"], "inconclusive", None),
        (["nsd"], "not measured", ""),
    ],
)
def test_a_claimed_order_of_servers(make_record: Make, order: list[str], outcome: str, measured: str | None) -> None:
    records = blocks(make_record, {"knot": 1.2, "zonda": 0.8, "same": 1.0})
    done = claims.check_claim(records, Claim("x", "y", "cpu_us_per_query", order=order))
    assert [each.outcome for each in done] == [outcome]
    assert measured is None or done[0].text == measured


def test_an_order_by_rates_takes_the_highest_rate_of_each_start(make_record: Make) -> None:
    """Below the knee all servers answer everything, so that medians over the curve are equal."""
    records = [
        make_record(b, server=server, within={"traffic.rate": str(rate)}, answered_qps=min(rate, peak) * (1 + b / 1000))
        for b in range(6)
        for server, peak in (("nsd", 300_000), ("knot", 200_000))
        for rate in (10_000, 20_000, 50_000, 400_000)
    ]
    claim = Claim("x", "y", "answered_qps", order=["nsd", "knot"])
    assert claims.check_claim(records, claim)[0].outcome == "confirmed"


def test_values_are_not_pooled_over_conditions(make_record: Make) -> None:
    """A server that needs 0.01 s with one group of settings and 0.21 s with the other must not have 0.11 s (E9)."""
    times = {"tuned": {"knot": 0.01, "nsd": 0.06}, "defaults": {"knot": 0.21, "nsd": 0.06}}
    records = [
        make_record(b, server=server, settings=settings, transfer_s=value * (1 + b / 1000))
        for b in range(6)
        for settings, of_servers in times.items()
        for server, value in of_servers.items()
    ]
    here = analysis.measured_for(records, Published("x", "y", "transfer_s"))
    assert [(cell.label, round(cell.median, 2)) for cell in here] == [
        ("knot, tuned", 0.01),
        ("nsd, tuned", 0.06),
        ("knot, defaults", 0.21),
        ("nsd, defaults", 0.06),
    ]
    claim = Claim("x", "y", "transfer_s", {"server.name": "knot"}, {"server.name": "nsd"}, 0.0, 1.0)
    done = claims.check_claim(records, claim)
    assert [(each.condition, each.outcome) for each in done] == [("tuned", "confirmed"), ("defaults", "refuted")]
    order = Claim("x", "y", "transfer_s", order=["nsd", "knot"])
    done = claims.check_claim(records, order)
    assert [(each.condition, each.outcome) for each in done] == [("tuned", "confirmed"), ("defaults", "refuted")]


@pytest.mark.parametrize(
    ("power", "shape", "outcome"),
    [
        (1.0, "linear", "confirmed"),
        (1.5, "linear", "refuted"),
        (1.5, "faster than linear", "confirmed"),
        (0.0, "flat", "confirmed"),
        (0.5, "flat", "refuted"),
        (0.5, "slower than linear", "confirmed"),
        (-1.0, "falling", "confirmed"),
        (0.9, "linear", "inconclusive"),
    ],
)
def test_a_claimed_shape_of_a_curve(make_record: Make, power: float, shape: str, outcome: str) -> None:
    draw = np.random.default_rng(3)
    records = [
        make_record(b, server=server, zones=str(n), transfer_s=(n / 1000) ** power * draw.lognormal(0, 0.01))
        for b in range(6)
        for server in ("nsd", "knot")
        for n in (1000, 4000, 16_000)
    ]
    claim = Claim("x", "y", "transfer_s", shape=shape, along="zones")  # type: ignore[arg-type]
    done = claims.check_claim(records, claim)
    assert [(each.condition, each.outcome) for each in done] == [("nsd", outcome), ("knot", outcome)]
    assert done[0].value == pytest.approx(power, abs=0.02)
    two = [record for record in records if record.treatment["zones"] != "16000"]
    assert claims.check_claim(two, claim)[0].outcome == "not measured"
    records[0].metrics["zones_missing"] = 1.0
    assert claims.check_claim(records, claim)[0].outcome == "inconclusive"


def test_a_curve_that_levels_off_is_flat_in_its_upper_half(make_record: Make) -> None:
    draw = np.random.default_rng(3)
    records = [
        make_record(b, rate=str(rate), answered_qps=min(rate, 100_000) * draw.lognormal(0, 0.005))
        for b in range(6)
        for rate in (10_000, 40_000, 80_000, 160_000, 240_000, 320_000)
    ]
    claim = Claim("x", "y", "answered_qps", shape="levels off", along="rate")
    assert claims.check_claim(records, claim)[0].outcome == "confirmed"
