"""The top of the page, and what stands beside figures because of the rig."""

import dataclasses
import re

import pytest
from conftest import NOISE, Make

from zonda_lab.analysis.analysis import aa_pairs, analyse_metric
from zonda_lab.experiments.definition import AnalysisSpec, Published
from zonda_lab.report.build import Chapter
from zonda_lab.report.conclusion import conclusion
from zonda_lab.report.document import Figure, Folded, Table, Text
from zonda_lab.report.opening import COST, opening, ranking
from zonda_lab.report.plots import _x_label
from zonda_lab.report.result_tables import EchoReference, measured_here, metric_tables
from zonda_lab.report.validity_tables import false_alarms, grouped, predictions, resource, rig_bound
from zonda_lab.results.window_record import WindowRecord

SPEC = AnalysisSpec(metric="answered_qps", compare="server.name", baseline="nsd")


def windows(make: Make, rates: dict[str, float], costs: dict[str, float]) -> list[WindowRecord]:
    made = []
    for block, noise in enumerate(NOISE):
        for server, rate in rates.items():
            for offered in (100_000, 400_000):
                answered = min(offered, rate * noise)
                metrics = {"answered_qps": answered, "offered_qps": offered, "answered_share": answered / offered}
                cost = costs[server] * noise * (1 if answered == offered else 0.5)
                metrics["answers_per_cpu_s"] = 1e6 / cost
                within = {"traffic.rate": str(offered)}
                record = make(
                    block, server=server, within=within, cpu_us_per_query=cost, latency_p99_us=90.0, **metrics
                )
                record.server["kind"] = server
                made.append(record)
    return made


def sentences(records: list[WindowRecord]) -> dict[str, str]:
    parts = opening(records)
    assert isinstance(parts[0], Figure) and parts[0].svg.startswith("<svg") and len(parts) == 4
    return {part.strong: part.text for part in parts if isinstance(part, Text)}


def test_the_page_opens_with_one_picture_and_three_sentences(make_record: Make) -> None:
    found = sentences(windows(make_record, {"nsd": 200_000, "zonda": 300_000}, {"nsd": 6.0, "zonda": 3.0}))
    assert found["Who answers most?"] == "zonda answers most: 300,000 queries per second; next is nsd with 200,000."
    cost = "3 µs of CPU time per answer, at 100,000 queries per second"
    assert found["Who costs least?"] == f"zonda costs least: {cost}; next is nsd with 6.01."
    assert "how the servers compare on other hardware" in found["What cannot be said?"]
    assert all(text.count(".") <= 4 for text in found.values())


def test_what_overlaps_is_too_close_to_call(make_record: Make) -> None:
    found = sentences(windows(make_record, {"nsd": 299_000, "zonda": 300_000}, {"nsd": 3.0, "zonda": 3.0}))
    assert found["Who answers most?"].startswith("No single server answers most; too close to call between zonda")


def test_the_limits_of_the_rig_stand_in_the_third_sentence(make_record: Make) -> None:
    rates = {"nsd": 200_000, "zonda": 300_000, "echo": 305_000}
    records = windows(make_record, rates, dict.fromkeys(rates, 3.0))
    for record in records:
        if record.treatment["server.name"] == "zonda":
            record.bounds = {"answered_qps": "at least"}
    found = sentences(records)
    assert "zonda answers most: at least 300,000" in found["Who answers most?"]
    assert "how much more than shown zonda could answer" in found["What cannot be said?"]
    assert "whether zonda could answer more, because the echo program cannot either" in found["What cannot be said?"]


def test_who_answers_the_highest_offered_rate_answers_at_least_that(make_record: Make) -> None:
    """E1 offers 80 % of what the echo server answers, so its best window is no capacity."""
    found = sentences(windows(make_record, {"nsd": 200_000, "zonda": 500_000}, {"nsd": 6.0, "zonda": 3.0}))
    assert found["Who answers most?"].startswith("zonda answers most: at least 400,000 queries per second; next is nsd")
    assert "how much more than shown zonda could answer" in found["What cannot be said?"]


def test_each_server_is_ranked_once(make_record: Make) -> None:
    """Starts with different placements must not be one ranking, in which each server stands once per placement."""
    records = windows(make_record, {"nsd": 200_000, "zonda": 300_000}, {"nsd": 6.0, "zonda": 3.0})
    for record in records:
        record.treatment["placement"] = "free"
    for record in windows(make_record, {"nsd": 100_000, "zonda": 150_000}, {"nsd": 6.0, "zonda": 3.0}):
        record.treatment["placement"], record.start = "pinned", f"{record.start}/pinned"
        records.append(record)
    assert sentences(records)["Who answers most?"].endswith(": 300,000 queries per second; next is nsd with 200,000.")


@pytest.mark.parametrize("again", [1.0, 1.2])
def test_an_experiment_with_an_a_a_alarm_does_not_open_the_page(make_record: Make, again: float) -> None:
    described = {
        "analysis": {"metric": "answered_qps", "compare": "server.name", "baseline": "nsd", "metrics": [COST]},
        "settings": {"traffic": {"transport": "udp"}, "timing": {"blocks": 8, "seconds": 1.0}},
        "levels": {},
        "published": [],
        "claims": [],
        "question": "",
        "title": "",
    }
    records = windows(make_record, {"nsd": 200_000, "zonda": 300_000}, {"nsd": 6.0, "zonda": 3.0})
    for record in [record for record in records if record.treatment["server.name"] == "nsd"]:
        cost = record.metrics[COST] * again * (1 + 0.001 * (record.block % 2))
        records.append(dataclasses.replace(record, copy=1, metrics={**record.metrics, COST: cost}))
    assert Chapter("E1", described, records).can_open == (again == 1.0)


def test_without_two_servers_there_is_no_opening(make_record: Make) -> None:
    assert opening(windows(make_record, {"nsd": 2.0, "echo": 3.0}, {"nsd": 1.0, "echo": 1.0})) == []


def medians(records: list[WindowRecord], metric: str) -> tuple[list[str], list[list[str]]]:
    parts = metric_tables(analyse_metric(records, metric, SPEC), SPEC, EchoReference(records))
    table = next(part for part in parts if isinstance(part, Table))
    return table.head, table.rows


def test_the_minimum_detectable_effect_stands_once_in_a_row(make_record: Make) -> None:
    """It must not have a column of its own and stand in the outcome again."""
    noisy = (1.3, 0.7, 1.2, 0.8, 1.1, 0.9, 1.4, 0.75)
    records = [make_record(block, server="nsd", cpu_us_per_query=3.0) for block in range(8)]
    records += [make_record(block, server="zonda", cpu_us_per_query=3.0 * noisy[block]) for block in range(8)]
    parts = metric_tables(analyse_metric(records, COST, SPEC), SPEC, EchoReference(records))
    table = next(part for part in parts if isinstance(part, Table) and "outcome" in part.head)
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["outcome"] == "inconclusive" and row["minimum detectable effect"].endswith("%")


def test_rates_are_shares_of_echo_and_latencies_stand_beside_its_latency(make_record: Make) -> None:
    records = windows(make_record, {"nsd": 200_000}, {"nsd": 3.0})
    for record in records:
        record.echo = {"capacity_qps": 400_000.0, "latency_p99_us": 30.0}
        record.detail["limits"] = {"latency_reasons": []}
    head, rows = medians(records, "answered_qps")
    assert [row[head.index("share of echo")] for row in rows] == ["25%", "50%"]
    head, rows = medians(records, "latency_p99_us")
    assert rows[0][head.index("echo's latency")] == "30"
    for record in records:
        record.detail["limits"]["latency_reasons"] = ["the generator was 95% busy: no headroom for latencies"]
    head, rows = medians(records, "latency_p99_us")
    assert rows[0][head.index("echo's latency")] == "–"  # it stood beside valid latencies as if it were one
    for record in records:
        del record.detail["limits"]
    assert "echo's latency" not in medians(records, "latency_p99_us")[0]


def test_shares_of_echo_stand_with_the_rate_that_they_were(make_record: Make) -> None:
    """Columns must not say “offered rate, q/s” over “80% of echo”."""
    records = windows(make_record, {"nsd": 200_000, "knot": 200_000}, {"nsd": 3.0, "knot": 4.0})
    for record in records:
        share = record.metrics["offered_qps"] / 500_000
        record.within["traffic.rate"] = f"{share:.0%} of echo"
    tables = [
        part
        for part in metric_tables(analyse_metric(records, "cpu_us_per_query", SPEC), SPEC, EchoReference(records))
        if isinstance(part, Table)
    ]
    for table in tables:
        at = table.head.index("offered rate")
        assert {row[at] for row in table.rows} == {"20% of echo (100,000 q/s)", "80% of echo (400,000 q/s)"}
        assert all(table.head)


def test_numbers_of_levels_have_separated_thousands_and_only_filled_columns_are_shown(make_record: Make) -> None:
    records = windows(make_record, {"nsd": 200_000}, {"nsd": 3.0})
    head, rows = medians(records, "cpu_us_per_query")
    assert head == ["server", "offered rate", "median", "95 % interval", "starts", "coefficient of variation"]
    assert [row[1] for row in rows] == ["100,000 q/s", "400,000 q/s"]


def test_reasons_that_differ_in_their_numbers_are_one_row() -> None:
    """There must not be a row per percentage: 91% busy, 92% busy, ... (E20)."""
    busy = [f"the generator was {share}% busy: no headroom for latencies" for share in (97, 91, 94)]
    late = ["80325 of 3955050 queries left more than 1 ms after their time"]
    assert grouped([*late, *busy]) == [
        ("the generator was 91–97% busy: no headroom for latencies", 3),
        ("80,325 of 3,955,050 queries left more than 1 ms after their time", 1),
    ]
    names = ["not set: net.ipv4.tcp_mem {x}", "not set: net.ipv6.tcp_mem {x}"]
    assert [count for _, count in grouped(names)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("load: thread 9304 uses its whole core", "a thread of the load generator uses its whole core"),
        ("server: thread udp-0 uses its whole core", "the server's thread udp uses its whole core"),
        ("server: thread nsd: server 1 uses its whole core", "the server's thread nsd: server uses its whole core"),
        ("the server's socket buffers overflow", "the server's socket buffers overflow"),
    ],
)
def test_threads_are_not_listed_by_number(text: str, words: str) -> None:
    assert resource(text) == words


def test_calculated_bounds_have_a_row_per_treatment(make_record: Make) -> None:
    records = [make_record(block, transfer_s=20.0 + block, zones_per_s=1_400.0) for block in range(3)]
    for record in records:
        record.predictions = {"transfer_s": 60.0, "connections_per_s": 470.5}
    (folded,) = predictions(records)
    assert isinstance(folded, Folded)
    text, table = folded.parts
    assert isinstance(text, Text) and "TIME_WAIT" in text.text and isinstance(table, Table)
    assert [row[1:3] for row in table.rows] == [
        ["shortest time to transfer all zones, s", "60"],
        ["zones transferred per second, with a connection each", "470"],
    ]
    assert table.rows[0][3].startswith("21.0 (")
    few = [make_record(block, server="knot", transfer_s=1.0 + block, zones_per_s=0.83) for block in range(3)]
    for record in few:
        record.predictions = {"transfer_s": 0.0, "connections_per_s": 470.5}
    assert predictions(few) == []  # E11 had "471 zones per second" beside 0.83 of a single zone
    (folded,) = predictions([*records, *few])
    assert isinstance(folded, Folded) and isinstance(folded.parts[1], Table)
    assert [row[2] for row in folded.parts[1].rows] == ["60", "none", "470", "none"]
    for record in records:
        record.predictions, record.metrics = {"connections": 451_712.0}, {"connections_open": 15_000.0}
    (folded,) = predictions(records)
    assert isinstance(folded, Folded) and isinstance(folded.parts[0], Text)
    assert "local port" in folded.parts[0].text and "TIME_WAIT" not in folded.parts[0].text


def test_all_limits_that_apply_stand_in_the_third_sentence(make_record: Make) -> None:
    """All of five must, not only the first three."""
    rates = {"nsd": 200_000, "zonda": 300_000, "echo": 305_000}
    records = [record for record in windows(make_record, rates, dict.fromkeys(rates, 3.0)) if record.block < 4]
    for record in records:
        record.bounds = {"answered_qps": "at least"} if record.treatment["server.name"] == "zonda" else {}
    records.append(dataclasses.replace(records[0], valid=False, reasons=["wrong"]))
    text = sentences(records)["What cannot be said?"]
    for part in (
        "how much more",
        "the echo program cannot",
        "few starts",
        "the window that broke",
        "on other hardware",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("bound", "share"), [(None, "at most 50% (echo: at least 400,000)"), ({}, "50% (echo: 400,000)")]
)
def test_a_peak_is_a_share_of_the_peak_of_echo(make_record: Make, bound: dict[str, str] | None, share: str) -> None:
    """It must not be one of what echo answers in a closed loop: echo's own peak is lower, and must be shown."""
    records = [make_record(block, peak_100_qps=200_000.0) for block in range(3)]
    for record in records:
        record.echo = {"capacity_qps": 600_000.0, "peak_100_qps": 400_000.0}
        record.detail["limits"] = {} if bound is None else {"bounds": bound}
    head, rows = medians(records, "peak_100_qps")
    assert rows[0][head.index("share of echo")] == share


def test_echo_among_the_servers_is_the_reference(make_record: Make) -> None:
    records = windows(make_record, {"nsd": 200_000, "echo": 400_000}, {"nsd": 3.0, "echo": 1.0})
    for record in records:
        record.metrics["latency_p99_us"] = 25.0 if record.server["kind"] == "echo" else 90.0
    head, rows = medians(records, "answered_qps")
    assert [row[head.index("share of echo")] for row in rows] == ["25%", "50%", "", ""]
    head, rows = medians(records, "latency_p99_us")
    assert [row[head.index("echo's latency")] for row in rows] == ["25", "25", "", ""]
    without = windows(make_record, {"nsd": 200_000}, {"nsd": 3.0})
    assert "share of echo" not in medians(without, "answered_qps")[0]


def test_a_share_of_a_bound_is_a_bound(make_record: Make) -> None:
    """It must not be “at least 103 %” of an echo server that might answer more."""
    records = windows(make_record, {"nsd": 200_000, "echo": 400_000}, {"nsd": 3.0, "echo": 1.0})
    for record in records:
        record.bounds = {"answered_qps": "at least"} if record.server["kind"] == "echo" else {}
    head, rows = medians(records, "answered_qps")
    assert [row[head.index("share of echo")] for row in rows] == ["at most 25%", "at most 50%", "", ""]
    for record in records:
        record.bounds = {"answered_qps": "at least"}
    head, rows = medians(records, "answered_qps")
    assert [row[head.index("share of echo")] for row in rows][:2] == ["unknown", "unknown"]


def test_the_highest_rate_of_a_server_that_answered_everything_is_a_bound(make_record: Make) -> None:
    """Servers must not have 210,000 queries per second as their highest rate where no more were sent (E1)."""
    records = windows(make_record, {"nsd": 200_000, "zonda": 500_000}, {"nsd": 6.0, "zonda": 3.0})
    text = measured_here(Published("highest rate", "140,000", "answered_qps"), records)
    assert re.sub(r" \([^)]*\)", "", text) == "nsd 200,200 q/s; zonda at least 400,000 q/s"


def test_rig_bound_figures_are_at_least_and_the_headline_is_cost(make_record: Make) -> None:
    records = windows(make_record, {"nsd": 200_000, "zonda": 300_000}, {"nsd": 6.0, "zonda": 3.0})
    for record in records:
        record.bounds, record.rig_bound = {"answered_qps": "at least"}, "the generator's core was 97 % busy"
    head, rows = medians(records, "answered_qps")
    assert all(row[head.index("median")].startswith("at least ") for row in rows)
    text = rig_bound(records)[0]
    assert isinstance(text, Text) and "32 of 32 windows were limited by the rig" in text.text
    for record in records:
        del record.metrics["cpu_us_per_query"]
    text = rig_bound(records)[0]
    assert isinstance(text, Text) and "instead" not in text.text  # E2 advised to compare what it had not measured


def test_the_headline_compares_costs_at_the_same_rate(make_record: Make) -> None:
    """An answer costs less at a higher rate: not those of four servers at 40 % of echo and of BIND at 25 % (E1)."""
    rates = {"nsd": 200_000, "zonda": 500_000, "echo": 600_000}
    records = windows(make_record, rates, {"nsd": 6.0, "zonda": 3.0, "echo": 2.0})
    for record in records:
        record.rig_bound = "the generator's core was 97 % busy"
    said = conclusion(None, [], SPEC, ranking(records, COST))
    assert said.startswith(
        "The rig limited some rates, which are lower bounds. CPU time per answer at the highest rate at which every "
        "server answered all queries (offered rate 100,000 q/s): zonda 3.00"
    )
    assert "; nsd 6.01 µs" in said and "; echo 2.0" in said and "400,000" not in said
    alone = [record for record in records if not record.block]
    assert conclusion(None, [], SPEC, ranking(alone, COST)).count(" (1 start)") == 3
    nsd = [record for record in records if record.treatment["server.name"] == "nsd"]
    slow = [dataclasses.replace(record, treatment={"server.name": "bind"}) for record in nsd]
    for record in slow:
        record.metrics = {**record.metrics, "answered_share": 0.9}
    said = conclusion(None, [], SPEC, ranking([*records, *slow], COST))
    assert "at which most servers answered all queries (offered rate 100,000 q/s, without bind): zonda" in said
    for record in records:
        record.detail["trials"] = []  # a search: each server has a rate of its own
    assert ranking(records, COST) is None


def test_the_headline_of_settings_is_the_cost_at_the_baseline(make_record: Make) -> None:
    """It must not name the setting with the lowest of nine costs, none of which differ significantly (E16)."""
    records = [
        make_record(block, server=server, setting=setting, cpu_us_per_query=cost * factor * noise, answered_share=1.0)
        for block, noise in enumerate(NOISE)
        for server, cost in (("zonda", 5.0), ("bind", 18.0))
        for setting, factor in (("sack 0", 0.99), ("default", 1.0))
    ]
    records[0].rig_bound = "the generator's core was 97 % busy"
    described = {
        "analysis": {"metric": COST, "compare": "setting", "baseline": "default"},
        "levels": {"setting": ["default", "sack 0"]},
        "published": [],
        "claims": [],
    }
    said = Chapter("E16", described, records).conclusion
    assert "which are lower bounds. CPU time per answer (default): zonda 5.0" in said and "; bind 18.0" in said


def test_the_false_alarm_rate_is_that_of_all_pairs(make_record: Make) -> None:
    records = []
    for load, factor in (("10 %", 1.0), ("100 %", 1.2)):
        for block, noise in enumerate(NOISE):
            for copy in (0, 1):
                cost = 3.0 * noise * (factor if copy else 1.0) * (1 + 0.001 * ((block * 3 + copy * 5) % 7 - 3))
                records.append(make_record(block, copy, within={"load": load}, cpu_us_per_query=cost))
    pairs = analyse_metric(records, "cpu_us_per_query", SPEC).aa_pairs
    text = false_alarms([pairs])[0]
    assert isinstance(text, Text) and text.text.startswith("1 of 2 A/A pairs of all experiments and metrics differ")
    assert "50.0% (95 % interval 1.3% – 98.7%" in text.text


def test_pairs_that_cannot_alarm_and_reciprocals_do_not_lower_the_rate_of_false_alarms(make_record: Make) -> None:
    """A time, its reciprocal and a length that is always the same must not be "2 of 3"."""
    metrics = ("transfer_s", "zones_per_s", "records_per_message")
    records = [
        make_record(block, copy, transfer_s=noise + copy, zones_per_s=9 / (noise + copy), records_per_message=40.0)
        for block, noise in enumerate(NOISE)
        for copy in (0, 1)
    ]
    spec = AnalysisSpec(metric="transfer_s", compare="server.name", baseline="nsd", metrics=list(metrics))
    text = false_alarms([aa_pairs(records, metrics, spec)])[0].text
    assert text.startswith("1 of 1 A/A pairs")
    assert text.endswith(" Not counted: 1 without variance, which cannot differ by chance.")


def test_without_pairs_the_false_alarm_rate_is_unknown() -> None:
    text = false_alarms([[]])[0]
    assert isinstance(text, Text) and "unknown" in text.text


def test_the_axis_of_shares_is_not_one_of_queries_per_second() -> None:
    assert _x_label("traffic.rate", ["10% of echo", "40% of echo"]) == "offered rate, % of the echo server's"
    assert _x_label("traffic.rate", ["10000"]) == "offered rate, q/s"
    assert _x_label("zones.zones", ["1000"]) == "zones"
