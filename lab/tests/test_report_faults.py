"""Faults that reports had: names that broke the page, values that were hidden, wrong or without their bound."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Make

from zonda_lab.analysis.analysis import analyse_metric
from zonda_lab.analysis.claims import check_claim
from zonda_lab.experiments.definition import AnalysisSpec, Claim, Published
from zonda_lab.report import html, markdown
from zonda_lab.report.conclusion import conclusion, verdict
from zonda_lab.report.document import Document, Figure, Folded, Heading, Table, Text, slug
from zonda_lab.report.machine import machine
from zonda_lab.report.number_format import effect_text, measured, minimum_effect, number
from zonda_lab.report.opening import opening
from zonda_lab.report.plot_style import COLOURS, PlotData, canvas_of, end_at, scale, styles, svg
from zonda_lab.report.plots import PLOTS
from zonda_lab.report.result_tables import (
    EchoReference,
    _without_control,
    claim_verdict,
    claims,
    measured_here,
    metric_tables,
)
from zonda_lab.report.validity_tables import predictions
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.statistics.ratio_effect import Effect

SPEC = AnalysisSpec(metric="cpu_us_per_query", compare="server.name", baseline="nsd")
EVIL = 'a"><script>x</script>\n| b'


def plot(name: str, records: list[WindowRecord], id_: str = "E1", **analysis: Any) -> list[Figure]:
    spec = AnalysisSpec(**{"metric": "cpu_us_per_query", "compare": "server.name", **analysis})
    return PLOTS[name](PlotData(id_, records, spec, Path("/nonexistent")))


def test_no_name_becomes_an_element_or_a_row_of_its_own() -> None:
    """An experiment file may have any id and title, and names of levels come from it, too."""
    table = Table([EVIL, "n"], [[EVIL, "1"]])
    parts = [Heading(2, EVIL, slug(EVIL)), Text(EVIL, EVIL), Folded(EVIL, [table]), Figure("x", "<svg/>", EVIL)]
    page, text = html.render(Document(EVIL, parts)), markdown.render(Document("x", parts))
    assert "<script" not in page and "<script" not in text
    assert set(re.findall(r'(?:id|href)="([^"]*)"', page)) == {slug(EVIL), f"#{slug(EVIL)}"}
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3 and all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert markdown.inline("p < 0.001, `a <b>`") == "p < 0.001, `a <b>`"


@pytest.mark.parametrize("name", ["a$b$", "$\\frac$", "50% of $x", "a/b"])
def test_plots_of_any_name_are_drawn_and_stored(make_record: Make, name: str) -> None:
    """Two dollar signs must not be a formula, nor a slash a folder."""
    (figure,) = plot("boxes", [make_record(0, server=name, cpu_us_per_query=3.0)], id_=f"my {name}")
    assert f">{name}<" in figure.svg and re.fullmatch(r"[\w-]+", figure.name)


def test_no_two_series_look_the_same() -> None:
    """The ninth must not look like the first, nor a server without a colour of its own like another."""
    many = list(styles([f"level {number}" for number in range(20)]))
    assert len(set(many)) == 20
    named = dict(zip(("mine", "zonda", "other"), styles(["mine", "zonda", "other"]), strict=True))
    assert named["zonda"][0] == COLOURS[0] and len({colour for colour, _ in named.values()}) == 3


def test_levels_that_are_no_numbers_are_drawn_as_boxes(make_record: Make) -> None:
    """The plot left them out."""
    records = [make_record(block, kind=kind, cpu_us_per_query=3.0) for block in range(3) for kind in ("8", "default")]
    (figure,) = plot("lines", records, x="kind")
    assert figure.name.endswith("-boxes") and "default" in figure.svg


@pytest.mark.parametrize(
    ("values", "chosen"),
    [([1.0, 2.0], "linear"), ([1.0, 5000.0], "log"), ([0.0, 1.0, 5000.0], "symlog"), ([0.0], "linear"), ([], "linear")],
)
def test_zeros_are_drawn(values: list[float], chosen: str) -> None:
    """A logarithmic axis left them out; its ticks are numbers as everywhere."""
    canvas, axes = canvas_of()
    axes.plot(values, "o")
    scale(axes, "y", values)
    assert axes.get_yscale() == chosen
    drawn = svg(canvas)
    assert "mathdefault" not in drawn and (">1,000<" in drawn) == (5000.0 in values)


def test_ticks_beside_zero_do_not_overlap() -> None:
    """With an axis that is linear up to 61, -10, 0 and 10 must not stand at one place (E18)."""
    _, axes = canvas_of()
    scale(axes, "x", [-28.0, 61.0, 97.0, 18_000.0])
    axes.set_xlim(-1_000.0, 100_000.0)
    ticks = axes.transData.transform([(tick, 0.0) for tick in axes.get_xticks() if abs(tick) <= 1_000.0])[:, 0]
    assert np.diff(ticks).min() > 20.0


def test_every_peak_is_in_the_legend_and_bounds_are_in_the_caption(make_record: Make) -> None:
    """The legend must not have those of the first server only."""
    records = [make_record(0, peak_100_qps=5.0), make_record(0, server="knot", peak_100_qps=5.0, peak_99_qps=6.0)]
    records[0].bounds = {"peak_100_qps": "at least"}
    (figure,) = plot("bars", records)
    assert figure.svg.count("highest rate with 100 % answered") == 1
    assert figure.svg.count("highest rate with 99 % answered") == 1
    assert "1 values are only bounds" in figure.caption


def test_transfers_without_arrivals_have_no_plot_of_them(make_record: Make) -> None:
    """The report of such a run must not end in a traceback."""
    assert plot("arrivals", [make_record(0, zones_per_s=3.0, transfer_s=1.0)]) == []


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (-0.004, -0.3, 0.3, "0.00 (-0.30 – 0.30)"),  # was -0.00
        (5.0, 1.0, 1000.0, "5 (1 – 1,000)"),  # was 0 (0 – 1,000)
    ],
)
def test_a_value_is_printed_as_zero_only_where_it_is(value: float, low: float, high: float, text: str) -> None:
    assert measured(value, low, high) == text
    assert number(-0.0, 1.0) == "0"


def test_no_cell_of_a_table_is_nan_and_no_p_value_is_zero(make_record: Make) -> None:
    """Intervals without variance must not be "nan – nan", nor equivalence "p 0.000"."""
    near = {"nsd": 3.0, "knot": 3.0001}
    records = [
        make_record(block, server=name, cpu_us_per_query=cost * (1 + 0.001 * (block % 3)))
        for block in range(8)
        for name, cost in near.items()
    ]
    records[0].metrics["cpu_us_per_query"] = 3.002
    parts = metric_tables(analyse_metric(records, "cpu_us_per_query", SPEC), SPEC, EchoReference(records))
    text = markdown.render(Document("x", parts))
    assert "nan" not in text and "p 0.000" not in text
    assert "equivalent within 2.0% (p < 0.001)" in text


@pytest.mark.parametrize(
    ("metric", "value", "outcome"),
    [
        ("bytes_per_message", 16_368.0, "different, identical in all 4 starts"),
        ("bytes_per_message", 15_713.0, "the same in all 4 starts"),
        ("bytes_per_connection", 5_000.0, "better, identical in all 4 starts"),
    ],
)
def test_values_without_variance_have_no_p_value(make_record: Make, metric: str, value: float, outcome: str) -> None:
    """Three starts with the same length have neither "p < 0.001" nor a minimum detectable effect of "0.0%" (E10)."""
    records = [
        make_record(block, server=server, **{metric: length})
        for block in range(4)
        for server, length in (("nsd", 15_713.0), ("knot", value))
    ]
    _, (row,) = only_table(records, metric)
    assert (row["p (Holm)"], row["minimum detectable effect"], row["outcome"]) == ("–", "–", outcome)


def test_small_detectable_effects_are_not_zero(make_record: Make) -> None:
    """It must not be "0.0%" of octets per message, which vary by one in ten thousand."""
    assert minimum_effect(0.0001) == "< 0.1%" and minimum_effect(0.004) == "0.4%"
    assert minimum_effect(1e-7, absolute=0.001) == "< 0.001 points"
    assert minimum_effect(np.expm1(0.0171), absolute=0.001) == "1.71 points"
    small = Effect(np.exp(-0.000249), np.exp(-0.0017), np.exp(0.0011), 0.5, 3, 0.5, 0.5, 0.5, 0.3)
    assert effect_text(small, 0.001) == "-0.02 (-0.17 – 0.11) points"
    records = [
        make_record(block, server=server, answered_share=1.0 - (block + len(server)) * 1e-7)
        for block in range(4)
        for server in ("nsd", "zonda")
    ]
    _, (row,) = only_table(records, "answered_share")
    assert row["difference from nsd (95 % interval)"] == "0 (0 – 0) points"


def test_a_rate_is_a_share_of_the_echo_over_the_same_transport(make_record: Make) -> None:
    """Rates over TCP must not be shares of what the echo server answers over UDP."""
    records = []
    for transport, rate in (("udp", 400_000.0), ("tcp", 100_000.0)):
        for server, share in (("nsd", 0.5), ("echo", 1.0)):
            levels = {"traffic.transport": transport}
            records.append(make_record(0, server=server, within=levels, answered_qps=rate * share))
            records[-1].server["kind"] = server
    parts = metric_tables(analyse_metric(records, "answered_qps", SPEC), SPEC, EchoReference(records))
    table = next(part for part in parts if isinstance(part, Table))
    assert [row[table.head.index("share of echo")] for row in table.rows] == ["50%", "", "50%", ""]


def test_published_values_say_their_starts_where_these_differ(make_record: Make) -> None:
    records = [make_record(block, server=s, lost=3.0) for s, n in (("nsd", 3), ("knot", 5)) for block in range(n)]
    assert measured_here(Published("x", "y", "lost"), records).endswith("(n = 3 to 5)")


def test_claims_about_other_metrics_than_the_primary_one_decide_without_it(make_record: Make) -> None:
    """Where latencies alone are invalid, it must not be “not measured: no window was valid”."""
    records = [make_record(block, answered_share=1.0) for block in range(6)]
    claims = check_claim(records, Claim("all is answered", "100 %", "answered_share", low=0.99))
    assert verdict(claims, None) == "confirmed"
    said = conclusion(None, claims, SPEC, None, len(records))
    assert said.startswith("No result: no valid window has the server CPU time per answer. Published claim: all is")


def test_bounds_are_compared_with_valid_windows_only(make_record: Make) -> None:
    records = [make_record(block, transfer_s=7.0 + block) for block in range(3)]
    for record in records:
        record.predictions = {"transfer_s": 5.0}
    records[0].valid, records[1].metrics["zones_missing"] = False, 3.0
    (folded,) = predictions(records)
    assert isinstance(folded, Folded) and isinstance(folded.parts[1], Table)
    ((*_, value, starts),) = folded.parts[1].rows
    assert value.startswith("at least 8") and starts == "2"


def test_memory_is_not_rounded_down() -> None:
    described = dict.fromkeys(("cpu", "cpus", "hypervisor", "kernel", "system"), "") | {"memory_mb": 7950, "sysctl": {}}
    generator = {"name": "", "version": ""}
    manifest = {"machine": described, "generator": generator, "began": "", "servers": {}, "absent": {}}
    text = machine(manifest, [], [])[0]
    assert isinstance(text, Text) and "7.8 GiB" in text.text


def test_the_picture_marks_bounds_and_explains_the_dashed_line(make_record: Make) -> None:
    """The bar of a lower bound must not look like a value, and a line of the right chart alone must be explained."""
    records = [
        make_record(0, server=name, answered_qps=rate, cpu_us_per_query=cost, offered_qps=400.0)
        for name, rate, cost in (("nsd", 100, 3.0), ("zonda", 300, 2.0))
    ]
    records[1].bounds = {"answered_qps": "at least"}
    cost = make_record(0, server="echo", cpu_us_per_query=1.0, offered_qps=400.0)
    (picture, *_) = opening([*records, cost])
    assert isinstance(picture, Figure) and ">zonda (at least)<" in picture.svg
    assert "Medians of 1 start, lines" in picture.caption and "Dashed: an echo program" in picture.caption


def only_table(
    records: list[WindowRecord], metric: str, **spec: Any
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The rows of the medians and of the comparisons."""
    analysis = AnalysisSpec(**{"metric": metric, "compare": "server.name", "baseline": "nsd", **spec})
    parts = metric_tables(analyse_metric(records, metric, analysis), analysis, EchoReference(records))
    tables = [part for part in parts if isinstance(part, Table)]
    medians, compared = ([dict(zip(part.head, row, strict=True)) for row in part.rows] for part in tables[:2])
    return medians, compared


def test_no_interval_of_a_share_reaches_above_1(make_record: Make) -> None:
    """Not `0.90 | 0.74 - 1.13` (E1), nor one up to 1.11 (E18)."""
    shares = {"nsd": (0.99, 0.85, 0.90), "zonda": (0.9996, 0.999, 1.0)}
    records = [make_record(b, server=s, answered_share=v) for s, values in shares.items() for b, v in enumerate(values)]
    records[-1].bounds = {"answered_share": "at least"}
    medians, _ = only_table(records, "answered_share")
    assert [row["95 % interval"].endswith(" – 1.00") for row in medians] == [True, False]
    assert float(medians[1]["95 % interval"].split(" – ")[1]) == 1.0
    softirq = [make_record(b, server=s, softirq_share=v) for s in ("nsd", "zonda") for b, v in enumerate((0.4, 0.9, 1))]
    medians, _ = only_table(softirq, "softirq_share")
    assert {float(row["95 % interval"].split(" – ")[1]) for row in medians} == {1.0}


@pytest.mark.parametrize(
    ("probes", "low", "outcome"),
    [(210, "0.9952 – ", "inconclusive"), (50_000, "0.99998", "equivalent within 0.5 points")],
)
def test_no_loss_among_few_probes_is_not_equality(make_record: Make, probes: int, low: str, outcome: str) -> None:
    """After 3 times 210 probes one in 200 may be lost: not "equivalent within 0.1 points (p < 0.001)" (E18)."""
    servers = ("nsd", "zonda", "knot", "bind")
    records = [make_record(block, server=s, udp_answered_share=1.0) for s in servers for block in range(3)]
    for record in records:
        record.detail["counters"] = {"client": {"Udp.OutDatagrams": probes}}
    medians, compared = only_table(records, "udp_answered_share")
    assert medians[0]["95 % interval"].startswith(low) and compared[0]["outcome"].startswith(outcome)


@pytest.mark.parametrize(
    ("metric", "value", "of_few", "of_many"),
    [
        ("answered_share", 1.0, {"sent_qps": 100.0}, {"sent_qps": 10_000.0}),
        ("late_share", 0.0, {"Tcp.ActiveOpens": 30}, {"Tcp.ActiveOpens": 6_000}),
        ("failed_share", 0.0, {"Tcp.ActiveOpens": 30}, {"Tcp.ActiveOpens": 6_000}),
        ("updates_failed_share", 0.0, {"updates_per_s": 100.0}, {"updates_per_s": 10_000.0}),
    ],
)
def test_no_loss_among_few_is_not_equality_of_any_share(
    make_record: Make, metric: str, value: float, of_few: dict[str, float], of_many: dict[str, float]
) -> None:
    """Not only UDP probes are counted: shares of 300 queries are not "equivalent within 0.1 points (p < 0.001)"."""
    for counts, outcome in ((of_many, "equivalent within"), (of_few, "inconclusive"), ({}, "inconclusive")):
        records = [
            make_record(block, server=server, **{metric: value, **counts})
            for server in ("nsd", "zonda")
            for block in range(3)
        ]
        for record in records:
            record.window = [10.0, 11.0]
            record.detail["counters"] = {"client": counts}
        medians, compared = only_table(records, metric)
        assert compared[0]["outcome"].startswith(outcome), counts
        ends = [float(end) for end in medians[0]["95 % interval"].split(" – ")]
        assert ends[0] <= value <= ends[1] and (ends[1] - ends[0] > 0.005) == (counts == of_few)


def test_a_spread_is_not_printed_where_it_has_no_meaning(make_record: Make) -> None:
    """Not a coefficient of variation of -6.0% (E18), nor one of 0.0% of a single start (E1)."""
    medians, _ = only_table(
        [make_record(b, server="nsd", lost=v) for b, v in enumerate((-25.0, -26.0, -28.0))]
        + [make_record(0, server="zonda", lost=3.0)],
        "lost",
    )
    assert [row["coefficient of variation"] for row in medians] == ["–", "–"]


def test_values_that_cannot_be_compared_have_no_p_value(make_record: Make) -> None:
    """Not `1 (unbounded)`, p < 0.001, too few starts (E21), nor 0.504 points without a word of the bounds (E1)."""
    few = [make_record(b, server=s, lost=v) for s, v in (("nsd", 3.0), ("zonda", 4.0)) for b in range(2)]
    _, (row,) = only_table(few, "lost")
    assert (row["p (Holm)"], row["minimum detectable effect"], row["outcome"]) == ("–", "–", "too few starts")
    shares = [
        make_record(b, server=s, answered_share=v - b / 100)
        for s, v in (("nsd", 0.9), ("zonda", 0.8))
        for b in range(3)
    ]
    for record in shares:
        record.bounds = {"answered_share": "at least"}
    _, (row,) = only_table(shares, "answered_share")
    assert row["difference from nsd (95 % interval)"] == "unknown, as both values are only bounds"
    assert row["p (Holm)"] == "–"
    for record in shares[3:]:
        record.bounds = {}
    _, (row,) = only_table(shares, "answered_share")
    assert row["difference from nsd (95 % interval)"].startswith("at most -10")


def test_a_claim_names_the_server_even_if_it_is_the_only_one_measured(make_record: Make) -> None:
    """If only one server has valid latencies, the condition of its claim must not be empty (E16)."""
    records = [
        make_record(block, server=s, latency_mean_us=3.0 + block / 100) for s in ("bind", "zonda") for block in range(4)
    ]
    for record in records[4:]:
        record.latency_reasons = ["the generator was busy"]
    parts = claims(check_claim(records, Claim("it takes 3 µs", "3 µs", "latency_mean_us", low=2.8, high=3.2)))
    table = next(part for part in parts if isinstance(part, Table))
    assert [row[table.head.index("condition")] for row in table.rows] == ["bind", "zonda"]
    why = "not measured: no valid window (the generator was busy)"  # Zonda's condition was missing
    assert [row[table.head.index("verdict")] for row in table.rows] == ["confirmed", why]


@pytest.mark.parametrize(
    ("noise", "starts", "limits", "verdict"),
    [
        (0.001, 6, {"high": 1.5}, "inconclusive: the interval contains the limit 1.5"),
        (
            0.001,
            6,
            {"low": 1.4999, "high": 1.5001},
            "inconclusive: the interval contains the limits 1.49990 and 1.50010",
        ),
        (0.2, 3, {"high": 1.2}, "inconclusive, minimum detectable effect "),
        (0.001, 2, {"high": 1.2}, "inconclusive: fewer than 3 starts"),
    ],
)
def test_an_inconclusive_claim_says_why(
    make_record: Make, noise: float, starts: int, limits: dict[str, float], verdict: str
) -> None:
    """The minimum detectable effect is no reason if the effect is ten times as large, at the limit of the claim."""
    records = [
        make_record(block, server=s, transfer_s=value * (1 + noise * (block % 3 - 1) * (s == "knot")))
        for s, value in (("nsd", 1.0), ("knot", 1.5))
        for block in range(starts)
    ]
    claim = Claim("x", "y", "transfer_s", {"server.name": "knot"}, {"server.name": "nsd"}, **limits)
    assert claim_verdict(check_claim(records, claim)[0]).startswith(verdict)


def test_a_claim_without_a_valid_window_on_one_side_says_why(make_record: Make) -> None:
    records = [make_record(block, server=s, lost=3.0 + block) for s in ("bind", "nsd") for block in range(4)]
    for record in records[4:]:
        record.skipped, record.valid = "nsd: not installed\nhelp", False
    claim = Claim("x", "y", "lost", {"server.name": "bind"}, {"server.name": "nsd"})
    assert claim_verdict(check_claim(records, claim)[0]) == "not measured: no valid window (nsd: not installed)"
    other = Claim("x", "y", "lost", {"server.name": "knot"})
    assert claim_verdict(check_claim(records, other)[0]) == "not measured: no window has this metric"


def test_a_claim_about_a_group_names_the_settings_that_were_not_applied(make_record: Make) -> None:
    """A verdict about a group of settings must name those that could not be set (E17)."""
    records = [make_record(b, server=s, lost=3.0 + b) for s in ("bind", "nsd") for b in range(3)]
    for record in records[:3]:
        record.notes = [
            f"not set, because it is not per namespace on this kernel: net.ipv4.{n}_mem" for n in ("udp", "tcp")
        ]
    parts = claims(check_claim(records, Claim("x", "y", "lost", {"server.name": "bind"}, {"server.name": "nsd"})))
    text = "x: net.ipv4.udp_mem, net.ipv4.tcp_mem."
    assert [part.text for part in parts if isinstance(part, Text)] == [text]
    other = claims(check_claim(records, Claim("x", "y", "lost", {"server.name": "nsd"})))
    assert not any(isinstance(part, Text) for part in other)


def test_columns_of_claims_without_content_are_left_out(make_record: Make) -> None:
    records = [
        make_record(block, server=s, lost=v + block) for s, v in (("bind", 3.0), ("nsd", 30.0)) for block in range(4)
    ]
    order = Claim("it is so", "A > B", "lost", order=["nsd", "bind"])
    table = next(part for part in claims(check_claim(records, order)) if isinstance(part, Table))
    assert not {"condition", "confirmed by"} & set(table.head) and "verdict" in table.head


def test_a_bare_number_beside_a_published_figure_is_named(make_record: Make) -> None:
    """E19: `BIND 9.16 | occasional lock-up | 1 (1 - 1)`."""
    records = [make_record(block, udp_answered_share=1.0) for block in range(3)]
    said = measured_here(Published("BIND", "lock-up", "udp_answered_share"), records)
    assert said.startswith("share of UDP queries answered: nsd 1 (")


def test_the_curve_of_a_ramp_has_a_point_for_each_rate(make_record: Make) -> None:
    record = make_record(0, sent_qps=200.0, answered_share=0.9)
    record.detail["ramp"] = [[100.0, 1.0], [200.0, 0.95], [300.0, 0.6]]
    (figure,) = plot("curve", [record], metric="answered_share")
    assert figure.caption.startswith("Response rate: one point per interval of a window")
    assert figure.svg.count(f'style="fill: {COLOURS[1]}') == 3


def test_an_axis_of_shares_ends_at_1(make_record: Make) -> None:
    """It must not end at 1.04 (E19), nor cut points off at its edge (E1)."""
    (figure,) = plot("boxes", [make_record(block, answered_share=1.0) for block in range(3)], metric="answered_share")
    ticks = [float(tick) for tick in re.findall(r">([\d.]+)</text>", figure.svg)]
    assert max(ticks) == 1.0 and len(ticks) > 2
    _, axes = canvas_of()
    axes.plot([1.0, 2.0], [40.0, 100.0], "o")
    end_at(axes, "y", 100.0)
    assert 100.5 < axes.get_ylim()[1] < 102.0 and max(axes.get_yticks()) == 100.0
    before = axes.get_ylim()
    end_at(axes, "y", 1_000.0)  # a small share would be a line at the edge
    assert axes.get_ylim() == before


def test_fast_and_slow_transfers_are_both_seen(make_record: Make) -> None:
    """E13: lines of half a second lay on the axis of 300 seconds."""
    records = [
        make_record(0, server=s, zones_per_s=3.0, transfer_s=end) for s, end in (("zonda", 0.5), ("bind", 300.0))
    ]
    for record in records:
        record.detail["arrivals"] = [[record.metrics["transfer_s"] / 2, 1], [record.metrics["transfer_s"], 2]]
    (figure,) = plot("arrivals", records)
    assert ">10<" in figure.svg and ">50<" not in figure.svg


@pytest.mark.parametrize(
    ("values", "bounds", "starts", "why"),
    [
        ([3.0, 3.0, 3.0], {"lost": "at least"}, 0, "values are only bounds"),
        ([0.0, 0.0, 0.0], {}, 0, "all values are 0"),
        ([0.0, 1.0, 2.0], {}, 0, "a value is not positive: no ratio"),
        ([3.0, 3.0, 3.0], {}, 1, "fewer than 3 common starts"),  # three of each, but two in the same blocks
        ([3.0, 3.0], {}, 0, "fewer than 3 common starts"),
    ],
)
def test_a_missing_a_a_control_has_its_reason(
    make_record: Make, values: list[float], bounds: dict[str, Any], starts: int, why: str
) -> None:
    """It must not be "too few starts of the repeated baseline" under a table with three of them (E2)."""
    records = [
        make_record(block + copy * starts, copy, lost=value) for block, value in enumerate(values) for copy in (0, 1)
    ]
    for record in records:
        record.bounds = bounds
    records += [make_record(b, server="zonda", lost=4.0) for b in range(3)]
    spec = AnalysisSpec(metric="lost", compare="server.name", baseline="nsd")
    found = analyse_metric(records, "lost", spec)
    assert _without_control(found) == f"the repeated baseline is not compared: {why}."
    controls = [
        p.text for p in metric_tables(found, spec, EchoReference(records)) if isinstance(p, Text) and "A/A" in p.strong
    ]
    assert controls == ([_without_control(found)] if found.comparisons else [])


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ([0.0] * 4, "better: every value is lower"),  # 1,903 overflows with the default
        ([0.0, 0.0, 0.0, 5_000.0], "a value is not positive: no ratio"),
        ([0.0] * 3, "a value is not positive: no ratio"),  # of seven values, one order in 17 is separate
    ],
)
def test_a_count_that_falls_to_zero_has_an_outcome(make_record: Make, after: list[float], outcome: str) -> None:
    """A longer queue that ends all overflows of the default must have an outcome in the table (E33)."""
    counts = {"nsd": [1_903.0, 1_903.0, 1_903.0, 1_900.0], "knot": [10_192.0, 13_057.0, 13_655.0, 9_513.0]}
    records = [
        make_record(block, server=server, listen_overflows=value)
        for server, values in {**counts, "zonda": after}.items()
        for block, value in enumerate(values)
    ]
    _, compared = only_table(records, "listen_overflows")
    assert [(row["server"], row["outcome"]) for row in compared] == [("knot", "worse"), ("zonda", outcome)]
